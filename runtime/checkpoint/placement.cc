#include "runtime/checkpoint/placement.h"

#include <algorithm>

#include "runtime/checkpoint/copies.h"
#include "runtime/format/rank_digits.h"

namespace nabla::checkpoint {
namespace {

int64_t number_of(const Digits& digits, uint32_t rank) {
  int64_t out = 0;
  for (const Digit& d : digits) out = out * d.count + rank / d.stride % d.count;
  return out;
}

/// How many values they have together.
uint64_t count_of(const Digits& digits) {
  uint64_t out = 1;
  for (const Digit& d : digits) out *= d.count;
  return out;
}

Digits digits_from(const flatbuffers::Vector<const format::Digit*>* digits) {
  Digits out;
  for (const format::Digit& d : format::digits_of(digits)) out.push_back({d.stride(), d.count()});
  return out;
}

/// Does `number` differ from `first` in these digits alone?
bool is_among(Digits digits, uint32_t first, uint32_t number) {
  if (number < first) return false;
  std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.stride > b.stride; });
  uint32_t rest = number - first;
  for (const Digit& d : digits) {
    if (rest / d.stride >= d.count) return false;
    rest %= d.stride;
  }
  return rest == 0;
}

/// In which the numbers of all files differ that have a part or a copy of one.
Digits all_digits(const Placement& p) {
  Digits out = p.copies;
  for (const Cut& c : p.cuts) out.insert(out.end(), c.digits.begin(), c.digits.end());
  return out;
}

/// `file`, with `number` in these digits instead of 0.
uint32_t file_at(uint32_t file, const Digits& digits, uint64_t number) {
  for (size_t i = digits.size(); i-- > 0; number /= digits[i].count)
    file += static_cast<uint32_t>(number % digits[i].count) * digits[i].stride;
  return file;
}

exec::Box box_of(const std::vector<Cut>& cuts, uint32_t number) {
  exec::Box out;
  for (const Cut& c : cuts) out.begin.push_back(c.begin + number_of(c.digits, number) * c.extent), out.size.push_back(c.extent);
  return out;
}

}  // namespace

// By the difference of both numbers, so that `first` may have other values than 0 in the digits.
std::optional<exec::Box> Placement::part_of(uint32_t file) const {
  if (!is_among(all_digits(*this), first, file)) return std::nullopt;
  return box_of(cuts, file - first);
}

void Placement::add_files(const exec::Box& box, std::set<uint32_t>& to) const {
  std::vector<uint32_t> files{first};
  for (size_t d = 0; d < cuts.size(); ++d) {
    const Cut& c = cuts[d];
    int64_t count = static_cast<int64_t>(count_of(c.digits)), end = box.begin[d] + box.size[d];
    std::vector<uint32_t> more;
    int64_t from = c.extent == 0 || box.begin[d] < c.begin ? 0 : (box.begin[d] - c.begin) / c.extent;
    for (int64_t k = from; c.extent > 0 && k < count && c.begin + k * c.extent < end; ++k)
      for (uint32_t f : files) more.push_back(file_at(f, c.digits, static_cast<uint64_t>(k)));
    files = std::move(more);
  }
  const uint64_t equal = count_of(copies);
  for (uint32_t f : files) {
    uint64_t k = 0;
    while (k < equal && to.count(file_at(f, copies, k)) == 0) ++k;
    if (k == equal) to.insert(f);
  }
}

exec::Box Placement::hull(const std::vector<int64_t>& shape) const {
  exec::Box out;
  for (size_t d = 0; d < cuts.size(); ++d) {
    __int128 end = cuts[d].begin + static_cast<__int128>(count_of(cuts[d].digits)) * cuts[d].extent;
    out.begin.push_back(cuts[d].begin);
    out.size.push_back(static_cast<int64_t>(std::max<__int128>(0, std::min<__int128>(end, shape[d]) - cuts[d].begin)));
  }
  return out;
}

bool Placement::is_sound(uint32_t files) const {
  Digits digits = all_digits(*this);
  std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
  uint64_t last = first, free = 1;  // strides from here on are of no digit before
  for (const Digit& d : digits) {
    if (d.count < 2 || d.stride < free) return false;
    free = uint64_t{d.stride} * d.count;
    last += uint64_t{d.count - 1} * d.stride;
    if (last >= files) return false;
  }
  if (last >= files) return false;
  // So that the end of a part is a number too.
  for (const Cut& c : cuts)
    if (c.begin + static_cast<__int128>(count_of(c.digits)) * c.extent > INT64_MAX) return false;
  return true;
}

exec::Box Layout::Share::box_of(uint32_t rank) const { return nabla::checkpoint::box_of(parts.cuts, rank); }

Layout::Layout(const format::Bundle& bundle) {
  if (bundle.ranks() == nullptr) return;
  const format::Ranks& table = *bundle.ranks();
  leaves_ = format::size_of(table.state());
  for (uint32_t i = 0; i < leaves_; ++i)
    for (const format::Placement* p : *table.state()->Get(i)->placements()) {
      const format::Class& of = *table.classes()->Get(p->class_index());
      const format::Tensor& part = *bundle.classes()[p->class_index()].programs[0]->state()->Get(p->index())->tensor();
      Share share{{static_cast<int>(i), of.first(), {}, std::nullopt}, digits_from(of.digits()), p->copy()};
      share.bytes = format::element_bytes(part.dtype());
      for (uint32_t d = 0; d < format::size_of(part.shape()); ++d) {
        Cut& cut = share.parts.cuts.emplace_back();
        cut.extent = part.shape()->Get(d), share.bytes *= static_cast<uint64_t>(cut.extent);
        if (d >= format::size_of(p->cuts())) continue;
        cut.begin = p->cuts()->Get(d)->begin(), cut.digits = digits_from(p->cuts()->Get(d)->digits());
      }
      shares_.push_back(std::move(share));
    }
  choose_copies(shares_);
}

Layout::Layout(size_t leaves, std::vector<Share> shares) : leaves_(leaves), shares_(std::move(shares)) { choose_copies(shares_); }

std::vector<Placement> Layout::written() const {
  std::vector<Placement> out;
  for (const Share& s : shares_)
    if (s.written) out.push_back(s.parts);
  return out;
}

std::vector<std::optional<exec::Box>> Layout::needed_by(uint32_t rank) const {
  std::vector<std::optional<exec::Box>> out(leaves_);
  for (const Share& s : shares_)
    if (is_among(s.ranks, s.parts.first, rank)) out[static_cast<size_t>(s.parts.leaf)] = s.box_of(rank);
  return out;
}

std::vector<std::optional<uint32_t>> Layout::files_for(uint32_t rank) const {
  std::vector<std::optional<uint32_t>> out(leaves_);
  for (const Share& s : shares_) {
    if (!s.written || !is_among(s.ranks, s.parts.first, rank)) continue;
    uint32_t file = s.parts.first;
    for (const Digit& d : all_digits(s.parts)) file += (rank - s.parts.first) / d.stride % d.count * d.stride;
    out[static_cast<size_t>(s.parts.leaf)] = file;
  }
  return out;
}

}  // namespace nabla::checkpoint
