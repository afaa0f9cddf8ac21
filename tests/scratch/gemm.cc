#include "tests/conformance/cpu_run.h"
#include "ir/ops/all_ops.h"
#include "ir/builder.h"
#include <chrono>
#include <cstdio>
using namespace nabla; using namespace nabla::ir;
double time_it(exec::Session& s,int e,std::vector<Literal> in){ std::vector<Literal> out; std::vector<const void*> ip; std::vector<void*> op; for(auto&i:s.entries()[e].outputs) out.emplace_back(i.dtype,i.shape); for(auto&x:in) ip.push_back(x.data()); for(auto&o:out) op.push_back(o.mutable_data());
 double best=1e9; for(int i=0;i<60;i++){auto t=std::chrono::steady_clock::now(); auto st=s.run(e,ip,op); if(!st.ok()) {puts("fail");} best=std::min(best,std::chrono::duration<double>(std::chrono::steady_clock::now()-t).count());} return best;}
int main(){ struct G{int m,n,k; bool ta,tb;}; 
 for(bool lib:{false,true}) {
 Module m; m.stage=Stage::kFlat; std::vector<G> gs={{1024,768,3072,0,0},{1024,768,3072,0,1},{1024,768,3072,1,0},{64,128,64,0,0},{64,64,128,0,1},{64,128,64,1,0},{64,10,64,0,0},{512,512,512,0,0}};
 int i=0; for(auto g:gs){ std::string n="g"+std::to_string(i++); FunctionBuilder b(n,ops::all_ops()); Val a=b.param("a",Type(DType::kF32,g.ta?Shape{g.k,g.m}:Shape{g.m,g.k})), c=b.param("b",Type(DType::kF32,g.tb?Shape{g.n,g.k}:Shape{g.k,g.n})); Val o=b.op("dot_general",{a,c},{{"lhs_contract",Ints{g.ta?0:1}},{"rhs_contract",Ints{g.tb?1:0}}}); m.functions.push_back(std::make_shared<Function>(b.finish({o}))); m.entries.push_back({n,n,{},{},{"a","b"},{"c"}}); }
 { FunctionBuilder b("chain",ops::all_ops()); Val x=b.param("x",Type(DType::kF32,Shape{4096,4096})); Val w=b.param("w",Type(DType::kF32,Shape{4096})); Val y= x*broadcast_along(w,x.shape(),{0})+1.0; y=b.op("maximum",{y,b.like(y,0)}); y=y*y-x; m.functions.push_back(std::make_shared<Function>(b.finish({y}))); m.entries.push_back({"chain","chain",{},{},{"x","w"},{"y"}}); }
 { FunctionBuilder b("softmax",ops::all_ops()); Val x=b.param("x",Type(DType::kF32,Shape{1024,1024})); Val y=b.op("softmax",{x},{{"axis",int64_t{1}}}); m.functions.push_back(std::make_shared<Function>(b.finish({y}))); m.entries.push_back({"softmax","softmax",{},{},{"x"},{"y"}}); }
 auto c=conformance::compile_for_cpu(m,"cpu:native",lib).value();
 for(size_t e=0;e<gs.size();e++){ auto g=gs[e]; double t=time_it(*c.session,e,{Literal(DType::kF32,c.session->entries()[e].inputs[0].shape),Literal(DType::kF32,c.session->entries()[e].inputs[1].shape)}); printf("%s %dx%dx%d %d%d %.1f GF/s %.1f us\n",lib?"lib":"gen",g.m,g.n,g.k,g.ta,g.tb,2.0*g.m*g.n*g.k/t/1e9,t*1e6);} 
 double t=time_it(*c.session,gs.size(),{Literal(DType::kF32,{4096,4096}),Literal(DType::kF32,{4096})}); printf("chain %.1f GB/s\n", 2*4096.*4096*4/t/1e9);
 t=time_it(*c.session,gs.size()+1,{Literal(DType::kF32,{1024,1024})}); printf("softmax %.1f us\n", t*1e6);
 }}
