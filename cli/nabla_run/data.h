// Arrays for an entry's inputs: from files, and batches of samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/nabla_run/options.h"
#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/exec/session.h"
#include "runtime/format/npy.h"

namespace nabla::cli {

/// Array files, each read once however many jobs name it. Jobs share the arrays that they take; what none takes goes
/// with this object.
class ArrayFiles {
 public:
  /// The arrays of a .npz or .safetensors file. E0901 for other endings.
  Result<const format::ArrayResults*> archive(const std::string& path);
  /// The array of a .npy file.
  Result<Literal> npy(const std::string& path);

 private:
  std::map<std::string, format::ArrayResults> files_;  ///< by path; a .npy is one array without a name
};

/// The value of `--input`: a file, an array of one, or a number for a scalar. E0703, E0704 when it does not fit.
Result<Literal> read_input(const Assignment& assignment, const exec::TensorInfo& input, ArrayFiles& files);

/// The file that `--input` names, without an array of it; empty for a number.
std::string file_of(const Assignment& input);
/// E0901 when the file's ending is none that write_output knows.
Status check_output_name(const Assignment& output);
/// Writes .npy or .safetensors, by the name's ending, which check_output_name has seen.
Status write_output(const std::string& path, const std::string& name, const Literal& value);

/// The order of the samples in an epoch: a map from place to sample. Up to 65,536 samples are permuted by a table, and more by a
/// formula, so that its memory does not grow with the data.
class Order {
 public:
  /// That of the file.
  explicit Order(int64_t samples) : samples_(samples) {}
  /// A permutation; the same seed and epoch give the same one on every machine.
  Order(int64_t samples, uint64_t seed, int64_t epoch);
  int64_t operator[](int64_t place) const;

 private:
  static constexpr int64_t kMostTable = 1 << 16;
  static constexpr int kRounds = 6;
  int64_t samples_;
  int half_ = 0;  ///< bits of each half of a number that the formula permutes; 0: there is no formula
  uint64_t keys_[kRounds] = {};
  std::vector<uint16_t> table_;
};

/// Samples for some inputs of an entry, ready to be cut into batches.
class Dataset {
 public:
  /// Reads the arrays of `job`. `taken` inputs have a value already. Notes on conversions are appended to `notes`. E0701
  /// for unknown names in the job's maps or when no array feeds an input, E0703 and E0704 when arrays do not fit, E0901
  /// for a batch size that the program does not take.
  static Result<Dataset> load(const JobOptions& job, const exec::EntryInfo& entry, const std::vector<bool>& taken,
                              ArrayFiles& files, std::vector<std::string>& notes);

  int64_t samples() const { return samples_; }
  int64_t batch() const { return batch_; }
  /// The leading size of the inputs is the caller's choice: the last batch may be smaller.
  bool open() const { return open_; }
  /// Inputs that the data feed.
  const std::vector<int>& inputs() const { return inputs_; }

  /// Shape of the array for inputs()[i] that holds `rows` samples.
  std::vector<int64_t> batch_shape(size_t i, int64_t rows) const;
  /// Copies samples order[begin ...] into the inputs' arrays. After the last sample the first ones are repeated.
  /// Copies only rows[i] = [begin, end) of the batch for inputs()[i]. The array has only these rows.
  void fill(const Order& order, int64_t begin, const std::vector<std::pair<int64_t, int64_t>>& rows,
               std::vector<Literal>& arrays) const;

 private:
  Status add(int input, const std::string& array, const Literal& value, const exec::EntryInfo& entry,
             std::optional<int64_t> batch, std::vector<std::string>& notes);

  int64_t samples_ = 0;
  int64_t batch_ = 0;
  bool open_ = false;
  std::vector<int> inputs_;
  std::vector<Literal> arrays_;  ///< one per element of inputs_
};

/// A small random generator (splitmix64): 64 bits from a counter.
uint64_t next_random(uint64_t& state);

}  // namespace nabla::cli
