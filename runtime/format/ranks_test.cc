// Bundles for several ranks: read back as they were written, and refused where they contradict themselves.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_check.h"
#include "runtime/format/test_programs.h"

namespace nabla::format {
namespace {

Result<Bundle> open_text(std::string_view bytes) {
  return Bundle::from_bytes(FileBytes::copy_of(as_bytes(bytes)), "test.nbundle");
}

/// "E0104 ..." for a bundle after `change`: the writer checks what the loader does.
std::string refusal(const std::function<void(TwoClasses&)>& change) {
  TwoClasses t = two_classes();
  change(t);
  Result<std::string> bytes = t.bytes();
  if (bytes.ok()) return "accepted";
  const Diagnostic& d = bytes.errors()[0];
  return fmt::format("{} {}", code_name(d.code), d.message.substr(d.message.rfind("the program: ", 13) == 0 ? 13 : 0));
}

TEST(Ranks, ABundleOfTwoClassesIsReadBack) {
  Result<Bundle> bundle = open_text(*two_classes().bytes());
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  ASSERT_EQ(bundle->classes().size(), 2u);
  const BundleClass& back = **bundle->need_class("back");
  EXPECT_EQ(back.folder, "class/back/");
  EXPECT_EQ(back.programs[0]->entries()->Get(0)->name()->str(), "reset");
  EXPECT_FALSE(bundle->member("class/front/programs/main.fb").empty());
  ASSERT_NE(bundle->ranks(), nullptr);
  EXPECT_EQ(bundle->ranks()->count(), 4u);
  auto manifest = nlohmann::json::parse(as_text(bundle->member("manifest.json")));
  EXPECT_EQ(manifest["version"], 2);
  EXPECT_EQ(manifest["programs"][1]["class"], "back");
  EXPECT_EQ(manifest["ranks"]["meshes"][0]["axes"], (nlohmann::json{{"pp", 2}, {"dp", 2}}));
  EXPECT_EQ(manifest["classes"][1]["ranks"], 2);
  EXPECT_EQ(manifest["classes"][1]["state"][0]["name"], "m");
  EXPECT_EQ(manifest["ranks"]["state"][1], (nlohmann::json{{"name", "stage1/m"}, {"dtype", "f32"}, {"shape", {4, 4}}}));
}

TEST(Ranks, AClassIsNamedUnlessThereIsOne) {
  Bundle bundle = *open_text(*two_classes().bytes());
  auto none = bundle.need_class("");
  EXPECT_EQ(none.errors()[0].message, "test.nbundle has programs for ranks of several classes: front, back");
  EXPECT_EQ(none.errors()[0].help, "name one of them with --class");
  auto typo = bundle.need_class("bakc");
  EXPECT_EQ(typo.errors()[0].code, Code::kUnknownName);
  EXPECT_EQ(typo.errors()[0].message, "test.nbundle has no class `bakc`; it has front, back; did you mean `back`?");
  Bundle one = *open_text(*bundle_bytes(small_program(), small_members()));
  EXPECT_EQ((*one.need_class(""))->name, "main");
  EXPECT_EQ(one.ranks(), nullptr);
}

TEST(Ranks, EveryFlippedByteIsNoticed) {
  std::string bytes = *two_classes().bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    EXPECT_FALSE(open_text(damaged).ok()) << i;
  }
}

TEST(Ranks, ClassesDivideTheRanks) {
  EXPECT_EQ(refusal([](TwoClasses&) {}), "accepted");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.version = 2; }),
            "E0103 a rank table of version 2; this program reads up to 1");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.count = 0; }), "E0104 damaged rank table: no ranks");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.count = 1 << 21; }), "E0402 2097152 ranks; at most 1048576");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.count = 8; }),
            "E0104 damaged rank table: mesh 0 has 4 places for 8 ranks");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.meshes.clear(), t.ranks.count = 8; }),
            "E0104 damaged rank table: rank 4 is of no class");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.meshes[0]->axes[1]->name = "pp"; }),
            "E0104 damaged rank table: mesh 0 has an axis 1 named `pp`");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->first = 0; }),
            "E0104 damaged rank table: rank 0 is of the classes `front` and `back`");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->first = 3; }),
            "E0104 damaged rank table: class `back` begins at rank 3 of 4");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->name = "front"; }),
            "E0108 two members of the bundle are named `class/front/programs/main.fb`");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->name = "../x"; }), "E0104 a class is named `../x`");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->digits = {Digit(1, 3)}; }),
            "E0104 damaged rank table: class `back` has a digit of 3 values and stride 1 of 4 ranks");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->digits = {Digit(0, 2)}; }),
            "E0104 damaged rank table: class `back` has a digit of 2 values and stride 0 of 4 ranks");
  EXPECT_EQ(refusal([](TwoClasses& t) {
              t.ranks.classes[1]->digits = {Digit(1, 2), Digit(1, 4)};
            }),
            "E0104 damaged rank table: class `back` has digits that overlap at stride 1");
}

TEST(Ranks, WhoeverCommunicatesHasPartners) {
  auto channel = [](TwoClasses& t, int c) -> ChannelT& { return *t.ranks.classes[c]->channels[0]; };
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.classes[1]->groups = {1}; }),
            "E0104 damaged rank table: class `back` names group 1 of 1, or names it twice");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.groups[0]->digits = {Digit(2, 2)}, t.ranks.classes[1]->groups = {}; }),
            "E0104 damaged rank table: ranks 0 and 2 are members of group 0, which only one of their classes has");
  EXPECT_EQ(refusal([&](TwoClasses& t) { channel(t, 0).offset = 3; }),
            "E0104 damaged rank table: channel 0 of class `front` leads from rank 1 to rank 4 of 4");
  EXPECT_EQ(refusal([&](TwoClasses& t) { channel(t, 0).offset = 1; }),
            "E0104 damaged rank table: channel 0 of class `front` leads to ranks of several classes");
  EXPECT_EQ(refusal([&](TwoClasses& t) { channel(t, 0).peer = 1; }),
            "E0104 damaged rank table: channel 0 of class `front` is channel 1 of the 1 of class `back`");
  for (auto change : {+[](ChannelT& c) { c.sends = true; }, +[](ChannelT& c) { c.bytes = 8; }})
    EXPECT_EQ(refusal([&](TwoClasses& t) { change(channel(t, 1)); }),
              "E0104 damaged rank table: channel 0 of class `front` and channel 0 of class `back` are not the two ends "
              "of one");
}

// What an instruction names is in its class's row.
TEST(Ranks, AnInstructionCommunicatesWithinItsRow) {
  auto at = [](TwoClasses& t, int i) -> InstructionT& { return *t.front.entries[0]->instructions[i]; };
  auto message = [&](const std::function<void(CollectiveT&)>& change) {
    return refusal([&](TwoClasses& t) { change(*at(t, 2).action.AsCollective()); });
  };
  const std::string where = "E0104 damaged program: entry `step`: instruction 2 `all_reduce`: ";
  EXPECT_EQ(message([](CollectiveT& c) { c.group = 1; }), where + "group 1 of 1");
  EXPECT_EQ(message([](CollectiveT& c) { c.reduction = Reduction::None; }), where + "no reduction");
  EXPECT_EQ(message([](CollectiveT& c) { c.kind = CollectiveKind::AllToAll; }), where + "a reduction");
  EXPECT_EQ(message([](CollectiveT& c) { c.bytes = 20; }), where + "the source is accessed beyond its 16 bytes");
  EXPECT_EQ(message([](CollectiveT& c) { c.bytes = 7; }), where + "7 bytes for 2 members with elements of 4");
  EXPECT_EQ(message([](CollectiveT& c) { c.root = 2; }), where + "root 2 of 2 members");
  EXPECT_EQ(message([](CollectiveT& c) { c.targets = {1, 0}; }), where + "2 targets where 0 are due");
  EXPECT_EQ(message([](CollectiveT& c) { c.kind = CollectiveKind::AllGather, c.reduction = Reduction::None; }),
            where + "the target is accessed beyond its 16 bytes");
  EXPECT_EQ(message([](CollectiveT& c) {
              c.kind = CollectiveKind::Permute, c.reduction = Reduction::None, c.targets = {1, 1};
            }),
            where + "member 1 sends to 1, which is none, or which another one sends to");
  EXPECT_EQ(message([](CollectiveT& c) { c.kind = static_cast<CollectiveKind>(99); }).substr(0, 5), "E0103");
  EXPECT_EQ(refusal([&](TwoClasses& t) { at(t, 1).action.AsSend()->channel = 4; }),
            "E0104 damaged program: entry `step`: instruction 1 `send`: channel 4 of 1");
  EXPECT_EQ(refusal([&](TwoClasses& t) { t.back.entries[1]->instructions[0]->action.AsRecv()->bytes = 20; }),
            "E0104 damaged program: entry `step`: instruction 0 `recv`: 20 bytes over channel 0, which takes 16");
}

TEST(Ranks, WhatIsStartedIsAwaitedInItsList) {
  auto list = [](TwoClasses& t) -> auto& { return t.front.entries[0]->instructions; };
  EXPECT_EQ(refusal([&](TwoClasses& t) { list(t).pop_back(); }),
            "E0104 damaged program: entry `step`: handle 7 is never awaited");
  EXPECT_EQ(refusal([&](TwoClasses& t) { list(t)[3]->action.AsWait()->handle = 9; }),
            "E0104 damaged program: entry `step`: instruction 3 `wait`: handle 9 was not started in this list");
  EXPECT_EQ(refusal([&](TwoClasses& t) { list(t)[2]->action.AsCollective()->handle = 7; }),
            "E0104 damaged program: entry `step`: instruction 2 `all_reduce`: handle 7 is started twice");
}

TEST(Ranks, PartnersDoTheSameInTheSameOrder) {
  EXPECT_EQ(refusal([](TwoClasses& t) { t.back.entries[1]->instructions[0]->action.AsRecv()->bytes = 12; }),
            "E0104 damaged bundle: entry `step`: class `front` sends over channel 0 what class `back` does not expect");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.back.entries[1]->name = "other", t.ranks.outputs[0]->entry = "other"; }),
            "E0104 damaged bundle: entry `step`: class `front` sends over channel 0 what class `back` does not expect");
  // A group over both stages, of which only one takes part.
  auto over_stages = [](TwoClasses& t) {
    t.ranks.groups.push_back(std::make_unique<GroupT>());
    t.ranks.groups[1]->digits = {Digit(2, 2)};
    for (auto& k : t.ranks.classes) k->groups = {0, 1};
  };
  EXPECT_EQ(refusal(over_stages), "accepted");
  EXPECT_EQ(refusal([&](TwoClasses& t) {
              over_stages(t);
              t.front.entries[0]->instructions[2]->action.AsCollective()->group = 1;
            }),
            "E0104 damaged bundle: entry `step` of the classes `front` and `back` does not do the same over group 1");
  EXPECT_EQ(refusal([&](TwoClasses& t) {
              over_stages(t);
              t.front.entries[0]->instructions[2]->action.AsCollective()->group = 1;
              t.back.entries[1]->instructions[2]->action.AsCollective()->group = 1;
            }),
            "accepted");
}

TEST(Ranks, NobodyWaitsForWhoWaits) {
  // A sum over both stages, which the front makes before it sends what the back wants before the sum.
  auto crossed = [](TwoClasses& t, bool in_blocks) {
    t.ranks.groups.push_back(std::make_unique<GroupT>());
    t.ranks.groups[1]->digits = {Digit(2, 2)};
    for (auto& k : t.ranks.classes) k->groups = {0, 1};
    auto &front = t.front.entries[0]->instructions, &back = t.back.entries[1]->instructions;
    front[2]->action.AsCollective()->group = 1, back[2]->action.AsCollective()->group = 1;
    std::rotate(front.begin() + 1, front.begin() + 2, front.begin() + 4);  // all_reduce, its wait, send, its wait
    if (!in_blocks) return;
    for (auto [program, list] : {std::pair(&t.front, &front), std::pair(&t.back, &back)}) {
      program->blocks.push_back(std::make_unique<BlockT>());
      program->blocks[0]->instructions.swap(*list);
      LoopT loop;
      loop.trips = 2;
      list->push_back(instruction("loop", std::move(loop)));
    }
  };
  const std::string front =
      "E0104 damaged bundle: entry `step`: class `front` waits for ever for `all_reduce`: its partners wait too";
  EXPECT_EQ(refusal([&](TwoClasses& t) { crossed(t, false); }), front);
  EXPECT_EQ(refusal([&](TwoClasses& t) { crossed(t, true); }), front);
  EXPECT_EQ(refusal([&](TwoClasses& t) {
              crossed(t, false);
              move_to_variant(*t.front.entries[0]), move_to_variant(*t.back.entries[1]);
            }),
            front);
  // The same with the send before the wait is in order.
  EXPECT_EQ(refusal([&](TwoClasses& t) {
              crossed(t, false);
              auto& list = t.front.entries[0]->instructions;
              std::swap(list[2], list[3]);
            }),
            "accepted");
}

TEST(Ranks, BlocksThatRecurseAreRefused) {
  auto calls = [](uint32_t block) {
    CallT call;
    call.block = block;
    return instruction("call", std::move(call));
  };
  auto with = [&](uint32_t from_first, uint32_t from_second) {
    return refusal([&](TwoClasses& t) {
      for (uint32_t block : {from_first, from_second}) {
        t.front.blocks.push_back(std::make_unique<BlockT>());
        if (block < 9) t.front.blocks.back()->instructions.push_back(calls(block));
      }
      t.front.entries[0]->instructions.push_back(calls(1));
    });
  };
  const std::string where = "E0104 damaged program: entry `step`: instruction 5 `call`: instruction 0 `call`: ";
  EXPECT_EQ(with(9, 0), "accepted");
  EXPECT_EQ(with(9, 1), where + "block 1 of 1 that it may use");
  EXPECT_EQ(with(1, 0), where + "instruction 0 `call`: block 1 of 0 that it may use");
  EXPECT_EQ(with(0, 0), where + "instruction 0 `call`: block 0 of 0 that it may use");
}

TEST(Ranks, PartnersDoTheSameInEachVariant) {
  auto front = [](TwoClasses& t) { move_to_variant(*t.front.entries[0]); };
  auto back = [](TwoClasses& t) { move_to_variant(*t.back.entries[1]); };
  const std::string differ =
      "E0104 damaged bundle: entry `step`: class `front` sends over channel 0 what class `back` does not expect";
  EXPECT_EQ(refusal(front), differ);
  EXPECT_EQ(refusal([&](TwoClasses& t) { front(t), back(t); }), "accepted");
  EXPECT_EQ(refusal([&](TwoClasses& t) {
              front(t), back(t);
              t.back.entries[1]->variants[0]->instructions[0]->action.AsRecv()->bytes = 12;
            }),
            differ);
}

// Nothing runs them, so nothing has checked what they refer to.
TEST(Ranks, BlocksThatNoEntryReachesHarmNothing) {
  TwoClasses t = two_classes();
  t.front.blocks.push_back(std::make_unique<BlockT>());
  LoopT loop;
  loop.body = 99;
  BranchT branch;
  branch.blocks = {0, 12345};
  t.front.blocks[0]->instructions.push_back(instruction("loop", std::move(loop)));
  t.front.blocks[0]->instructions.push_back(instruction("branch", std::move(branch)));
  Result<std::string> bytes = t.bytes();
  ASSERT_TRUE(bytes.ok()) << to_string(bytes.errors());
  EXPECT_TRUE(open_text(*bytes).ok());
}

TEST(Ranks, TheProgramsOfAClassForOtherTargetsCommunicateAlike) {
  TwoClasses t = two_classes();
  ProgramT other = t.front;
  other.target = "cpu:x86-64-v4";
  auto with = [&] { return bundle_bytes(RanksT(t.ranks), {{&t.front, &other}, {&t.back}}, {}); };
  EXPECT_TRUE(with().ok());
  std::swap(other.entries[0]->instructions[1], other.entries[0]->instructions[2]);  // over other partners: fine
  EXPECT_TRUE(with().ok());
  other.entries[0]->instructions[1]->action.AsCollective()->reduction = Reduction::Max;
  Result<std::string> bytes = with();
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.errors()[0].message,
            "the program: damaged bundle: the programs of class `front` for cpu:x86-64-v3 and cpu:x86-64-v4 do not "
            "communicate alike");
  other.target = t.front.target;
  EXPECT_FALSE(with().ok());
}

TEST(Ranks, ThePartsOfATensorMakeTheWhole) {
  auto m = [](TwoClasses& t) -> WholeT& { return *t.ranks.state[1]; };
  auto of = [&](const std::function<void(WholeT&)>& change) { return refusal([&](TwoClasses& t) { change(m(t)); }); };
  const std::string where = "E0104 damaged rank table: ";
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.state.pop_back(); }),
            where + "state leaf `n` of class `back` has no place in a whole");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.inputs.clear(); }),
            where + "input `x` of class `front` has no place in a whole");
  EXPECT_EQ(refusal([](TwoClasses& t) { t.ranks.outputs[0]->placements[0]->index = 1; }),
            where + "output `loss`: placement 0 is number 1 of class 1, which is not there or has a place");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->class_index = 5; }),
            where + "state leaf `stage1/m`: placement 0 is number 0 of class 5, which is not there or has a place");
  EXPECT_EQ(of([](WholeT& w) { w.dtype = DType::F64; }),
            where + "state leaf `stage1/m` is of another type than its part of class `back`");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->cuts.pop_back(); }),
            where + "state leaf `stage1/m` of rank 2 has 1 cuts for class `back`");
  EXPECT_EQ(of([](WholeT& w) { w.shape = {5, 4}; }), where + "state leaf `stage1/m` has elements without an owner");
  EXPECT_EQ(of([](WholeT& w) { w.shape = {2, 4}; }),
            where + "state leaf `stage1/m`: 2 parts of 2 from 0 on do not fit an extent of 2");
  EXPECT_EQ(of([](WholeT& w) { w.shape = {3, 4}; }), "accepted");  // the last row is padding
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->cuts[0]->begin = 1; }),
            where + "state leaf `stage1/m` has elements without an owner");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->cuts[0]->begin = -1; }),
            where + "state leaf `stage1/m`: a part begins at -1 of 4");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->cuts[0]->digits = {Digit(2, 2)}; }),
            where + "state leaf `stage1/m` is cut by a digit of stride 2 that ranks of class `back` do not differ in");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->cuts[1]->digits = {Digit(1, 2)}, w.shape = {4, 8}; }),
            where + "state leaf `stage1/m` has digits that overlap at stride 1");
  EXPECT_EQ(of([](WholeT& w) { w.placements[0]->copy = true; }),
            where + "state leaf `stage1/m` has elements without an owner");
  EXPECT_EQ(refusal([](TwoClasses& t) {
              t.ranks.state[0]->shape = {2, 4}, t.ranks.state[0]->name = t.ranks.state[1]->name;
            }),
            where + "state leaf `stage1/m` is of another type than its part of class `front`");
  // Both classes hold the same tensor: one of them owns it.
  auto shared = [](TwoClasses& t, bool copy) {
    t.front.state[0]->tensor->shape = {};
    t.ranks.state[0]->shape = {};
    t.ranks.state[0]->placements.push_back(std::move(t.ranks.state[2]->placements[0]));
    t.ranks.state[0]->placements[1]->copy = copy;
    t.ranks.state.pop_back();
  };
  EXPECT_EQ(refusal([&](TwoClasses& t) { shared(t, true); }), "accepted");
  EXPECT_EQ(refusal([&](TwoClasses& t) { shared(t, false); }),
            where + "state leaf `stage0/w` has elements with two owners");
}

TEST(Ranks, EveryProgramIsOfOneClass) {
  // The writer lists them itself, so the table is exchanged after it, hashes included, by writing members by hand.
  TwoClasses t = two_classes();
  Bundle bundle = *open_text(*t.bytes());
  auto check = [&](std::vector<std::vector<std::string>> lists) -> std::string {
    for (size_t c = 0; c < lists.size(); ++c) t.ranks.classes[c]->programs = lists[c];
    flatbuffers::FlatBufferBuilder b;
    FinishRanksBuffer(b, Ranks::Pack(b, &t.ranks));
    std::vector<std::string> names;
    for (const ZipMember& m : bundle.members()) names.push_back(m.name);
    auto find = [&](std::string_view name) -> std::optional<Bytes> {
      if (name == kRanksMember) return Bytes(b.GetBufferPointer(), b.GetSize());
      Bytes bytes = bundle.member(name);
      return bytes.empty() ? std::nullopt : std::optional<Bytes>(bytes);
    };
    auto checked = check_programs(names, find, "x");
    return checked.ok() ? "accepted" : checked.errors()[0].message;
  };
  const std::string front = "class/front/programs/main.fb", back = "class/back/programs/main.fb";
  EXPECT_EQ(check({{front}, {back}}), "accepted");
  EXPECT_EQ(check({{front}, {}}), "x: class `back` has no program");
  EXPECT_EQ(check({{back}, {front}}), "x: `class/back/programs/main.fb` is no program of class `front`, or stands twice");
  EXPECT_EQ(check({{front, front}, {back}}),
            "x: `class/front/programs/main.fb` is no program of class `front`, or stands twice");
  EXPECT_EQ(check({{"class/front/programs/none.fb"}, {back}}),
            "x: program `class/front/programs/main.fb` is of no class");
}

// The table of a large job takes kilobytes, and is checked in no time.
TEST(Ranks, FourThousandRanksAreASmallTable) {
  TwoClasses t = two_classes();
  t.ranks.count = 4096;
  t.ranks.meshes[0]->axes[1]->size = 2048;
  t.ranks.groups[0]->digits = {Digit(1, 2048)};
  t.ranks.classes[1]->first = 2048;
  for (auto& k : t.ranks.classes) k->digits = {Digit(1, 2048)};
  t.ranks.classes[0]->channels[0]->offset = 2048, t.ranks.classes[1]->channels[0]->offset = -2048;
  t.ranks.state[1]->shape = {4096, 4}, t.ranks.state[1]->placements[0]->cuts[0]->digits = {Digit(1, 2048)};
  t.ranks.inputs[0]->shape = {4096, 4}, t.ranks.inputs[0]->placements[0]->cuts[0]->digits = {Digit(1, 2048)};
  Result<std::string> bytes = t.bytes();
  ASSERT_TRUE(bytes.ok()) << to_string(bytes.errors());
  Bundle bundle = *open_text(*bytes);
  EXPECT_LT(bundle.member(kRanksMember).size(), 4096u);
}

}  // namespace
}  // namespace nabla::format
