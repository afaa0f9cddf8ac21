// A plan that is not what gpu_check_pack writes is refused, with the name of what is wrong.
#include "bench/gpu_check/plan.h"

#include <gtest/gtest.h>

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

json good() {
  return json::parse(R"({
    "target": "sm_90a", "tensor_tflops": 989,
    "values": [{"name": "a", "bundle": "kinds", "cpu": "kinds_cpu", "entry": "a", "tolerance": 2e-5, "integers": 8},
               {"name": "b", "bundle": "layer", "cpu": "layer_cpu", "entry": "step", "tolerance": 0, "integers": 61, "before": ["init"]}],
    "ranks": [{"name": "suite_2x2", "ranks": 4, "suite": [2, 2]},
              {"name": "train", "ranks": 2, "bundle": "train", "cpu": "train_cpu", "steps": 6, "tolerance": 1e-4},
              {"name": "killed_rank", "ranks": 2, "bundle": "train", "steps": 1000000, "killed": 1}],
    "ceilings": [{"name": "copy", "bundle": "speed", "entry": "copy", "unit": "GB/s", "work": 2.1, "datasheet": 3000, "of": "copy_gbs",
                  "launches": 20, "algorithms": ["20 x add: team 1 pack 4"]}],
    "training": [{"name": "gpt2", "bundle": "gpt2", "tokens": 8192, "vocabulary": 50257, "flops": 7e12, "seed": 7}]})");
}

TEST(Plan, OfOtherKindsOfJsonIsRefused) {
  EXPECT_EQ(plan_problem(good()), "");
  EXPECT_EQ(plan_problem(json::parse("[]")), "it is []; expected an object");
  EXPECT_EQ(plan_problem(json::parse("null")), "it is null; expected an object");
  EXPECT_EQ(plan_problem(json::parse("{}")), "it has no `target`");
  std::string longer(100, 'x');
  EXPECT_EQ(plan_problem(json(longer)), "it is \"" + longer.substr(0, 59) + "... (102 bytes); expected an object");
}

// Every value is needed, and none may be of another type.
TEST(Plan, EveryValueIsLookedAt) {
  std::vector<json::json_pointer> objects{json::json_pointer("")};
  const json plan = good();
  for (const char* part : {"values", "ranks", "ceilings", "training"})
    for (size_t i = 0; i < plan[part].size(); ++i) objects.push_back(json::json_pointer() / part / i);
  for (const json::json_pointer& object : objects)
    for (const auto& [key, value] : plan[object].items()) {
      if (key == "killed") continue;  // that it is there is all that is asked
      for (const json& other : {json(), json::object(), json(true), json(-1), json("")}) {
        json changed = plan;
        changed[object][key] = other;
        EXPECT_NE(plan_problem(changed), "") << object << " " << key << " = " << other;
      }
      json without = plan;
      without[object].erase(key);
      EXPECT_EQ(plan_problem(without).empty(), key == "before") << object << " " << key;
    }
}

TEST(Plan, AWrongValueIsNamed) {
  auto with = [](const char* at, const json& value) {
    json plan = good();
    plan[json::json_pointer(at)] = value;
    return plan_problem(plan);
  };
  EXPECT_EQ(with("/values/1/tolerance", "x"), "values[1].tolerance is \"x\"; expected a number of at least 0");
  EXPECT_EQ(with("/values/0/integers", 0), "values[0].integers is 0; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(with("/values/0/integers", 2.5), "values[0].integers is 2.5; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(with("/values/1/before", {1}), "values[1].before is [1]; expected an array of texts");
  EXPECT_EQ(with("/values/1", 7), "values[1] is 7; expected an object");
  EXPECT_EQ(with("/values", 3), "values is 3; expected an array");
  EXPECT_EQ(with("/ranks/0/ranks", 65), "ranks[0].ranks is 65; expected a whole number from 1 to 64");
  EXPECT_EQ(with("/ranks/0/suite", {2, 0}), "ranks[0].suite is [2,0]; expected an array of whole numbers from 1 on");
  EXPECT_EQ(with("/ranks/2/ranks", json(1u)), "ranks[2] kills rank 1, and has 1 rank");
  EXPECT_EQ(with("/ceilings/0/datasheet", 0), "ceilings[0].datasheet is 0; expected a number above 0");
  EXPECT_EQ(with("/training/0/losses", {1.5, 1.25}), "training[0].losses is [1.5,1.25]; expected an array of 11 numbers");
  EXPECT_EQ(with("/training/0/losses", std::vector<double>(11, 1.5)), "training[0] has no `tolerance`");
  json plan = good();
  plan["training"][0].erase("tokens");
  EXPECT_EQ(plan_problem(plan), "training[0] has no `tokens`");
  plan.erase("training");
  EXPECT_EQ(plan_problem(plan), "it has no `training`");
}

}  // namespace
}  // namespace nabla::gpu_check
