#include "runtime/comm/plain_table.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "runtime/format/ranks_generated.h"

namespace nabla::comm {

std::vector<uint8_t> plain_table(const std::vector<uint32_t>& axes) {
  format::RanksT table;
  table.count = 1;
  for (uint32_t a : axes) table.count *= a;
  auto digit = [](uint32_t stride, uint32_t count) {
    return count == 1 ? std::vector<format::Digit>{} : std::vector<format::Digit>{format::Digit(stride, count)};
  };
  auto one = std::make_unique<format::ClassT>();
  one->name = "main", one->digits = digit(1, table.count);
  auto add = [&](std::string name, std::vector<format::Digit> digits) {
    one->groups.push_back(static_cast<uint32_t>(table.groups.size()));
    table.groups.push_back(std::make_unique<format::GroupT>());
    table.groups.back()->name = std::move(name), table.groups.back()->digits = std::move(digits);
  };
  add("all", digit(1, table.count));
  uint32_t stride = table.count;
  for (uint32_t a : axes) {
    stride /= a;
    add(fmt::format("axis of {}", a), digit(stride, a));
  }
  for (bool sends : {true, false}) {
    auto channel = std::make_unique<format::ChannelT>();
    channel->offset = sends ? 1 : -1, channel->sends = sends, channel->peer = sends ? 1 : 0;
    one->channels.push_back(std::move(channel));
  }
  table.classes.push_back(std::move(one));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(format::Ranks::Pack(builder, &table));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace nabla::comm
