#include "tests/cuda/emulator/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace nabla::emulator {
namespace {

constexpr unsigned char kGuardByte = 0xa5, kFresh = 0xff;

}  // namespace

std::string Region::place(const void* p) const {
  int64_t at = static_cast<const char*>(p) - begin;
  return shared ? fmt::format("byte {} of {}", at, name) : fmt::format("byte {} of `{}` ({} bytes)", at, name, size());
}

Memory::~Memory() {
  for (auto& b : blocks_) std::free(b->region.shadow);
}

void Memory::fill_guards(Block& b) {
  std::memset(b.bytes.data(), kGuardByte, b.region.begin - b.bytes.data());
  std::memset(b.region.end, kGuardByte, b.bytes.data() + b.bytes.size() - b.region.end);
}

char* Memory::allocate(int64_t bytes, const std::string& name) {
  auto b = std::make_unique<Block>();
  b->bytes.resize(bytes + 2 * kGuard + 256);
  uintptr_t first = reinterpret_cast<uintptr_t>(b->bytes.data()) + kGuard;
  b->region.begin = reinterpret_cast<char*>((first + 255) / 256 * 256);
  b->region.end = b->region.begin + bytes;
  b->region.name = name;
  std::memset(b->region.begin, kFresh, bytes);
  fill_guards(*b);
  if (checked_) b->region.shadow = static_cast<Shadow*>(std::calloc(std::max<int64_t>(bytes, 1), sizeof(Shadow)));
  blocks_.push_back(std::move(b));
  return blocks_.back()->region.begin;
}

void Memory::adopt(void* at, int64_t bytes, const std::string& name) {
  auto b = std::make_unique<Block>();
  b->region = {name, static_cast<char*>(at), static_cast<char*>(at) + bytes, false, nullptr};
  if (checked_) b->region.shadow = static_cast<Shadow*>(std::calloc(std::max<int64_t>(bytes, 1), sizeof(Shadow)));
  blocks_.push_back(std::move(b));
}

void Memory::release(const void* at) {
  auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b->region.begin == at; });
  if (found == blocks_.end()) return;
  std::free((*found)->region.shadow);
  blocks_.erase(found);
}

const Region* Memory::find(const void* p) const {
  if (last_ < blocks_.size() && blocks_[last_]->region.holds(p)) return &blocks_[last_]->region;
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (blocks_[i]->region.holds(p)) {
      last_ = i;
      return &blocks_[i]->region;
    }
  return nullptr;
}

const Region* Memory::near(const void* p) const {
  for (const auto& b : blocks_)
    if (p >= b->region.begin - kGuard && p < b->region.end + kGuard) return &b->region;
  return nullptr;
}

void Memory::mark_initialised(const void* at, int64_t bytes) {
  const Region* r = find(at);
  if (!r || !r->shadow) return;
  Shadow* s = r->shadow + (static_cast<const char*>(at) - r->begin);
  for (int64_t i = 0; i < std::min<int64_t>(bytes, r->end - static_cast<const char*>(at)); ++i) s[i].initialised = true;
}

void Memory::mark_uninitialised(const void* at, int64_t bytes) {
  const Region* r = find(at);
  if (!r || !r->shadow) return;
  Shadow* s = r->shadow + (static_cast<const char*>(at) - r->begin);
  std::memset(static_cast<void*>(s), 0,
              std::min<int64_t>(bytes, r->end - static_cast<const char*>(at)) * sizeof(Shadow));
}

void Memory::copy_marks(const void* to, const void* from, int64_t bytes) {
  const Region *t = find(to), *f = find(from);
  if (!t || !f || !t->shadow || !f->shadow) return;
  Shadow* s = t->shadow + (static_cast<const char*>(to) - t->begin);
  const Shadow* was = f->shadow + (static_cast<const char*>(from) - f->begin);
  for (int64_t i = 0; i < bytes; ++i) s[i].initialised = was[i].initialised;
}

int64_t Memory::first_unwritten(const void* at) const {
  const Region* r = find(at);
  if (!r || !r->shadow) return -1;
  for (int64_t i = 0; i < r->size(); ++i)
    if (!r->shadow[i].initialised) return i;
  return -1;
}

std::vector<std::string> Memory::broken_guards() {
  std::vector<std::string> out;
  for (auto& b : blocks_) {
    const Region& r = b->region;
    if (b->bytes.empty()) continue;
    auto intact = [](const char* from, const char* to) {
      return std::all_of(from, to, [](char c) { return static_cast<unsigned char>(c) == kGuardByte; });
    };
    if (intact(b->bytes.data(), r.begin) && intact(r.end, b->bytes.data() + b->bytes.size())) continue;
    out.push_back(r.name);
    fill_guards(*b);
  }
  return out;
}

}  // namespace nabla::emulator
