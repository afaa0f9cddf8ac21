// The options of nabla-run, one row for each. The command line, its help and its checks follow from the rows, and so does the
// comparison of the options of different ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cli/nabla_run/options.h"

namespace nabla::cli {

/// Where an option is stored. A bool is a flag without a value.
using OptionPlace = std::variant<std::string*, std::vector<std::string>*, std::vector<Assignment>*, bool*, int*, int64_t*, double*,
                                 std::optional<int64_t>*, std::optional<uint64_t>*, std::optional<uint32_t>*, const comm::Engine**>;

/// Which texts an option accepts.
struct OptionDomain {
  enum class Kind : uint8_t { kAny, kName, kFile, kAddress, kEngine, kWhole, kSeconds };
  Kind kind = Kind::kAny;
  uint64_t low = 0, high = 0;  ///< of whole numbers; milliseconds of seconds
  const char* words = "";      ///< of whole numbers: "a number of ranks"
};

/// On what of an option all ranks of a job must agree: nothing, its value, whether it is given, or the content of its file.
enum class Alike : uint8_t { kNothing, kValue, kPresence, kContent };

/// Without these an option has no effect. The values are bits, so that an option can need several.
enum Needs : uint8_t { kNeedsNothing = 0, kNeedsProcesses = 1, kNeedsCheckpoints = 2, kNeedsWeights = 4, kNeedsData = 8 };

struct OptionRow {
  const char* flag;   ///< "--state"
  const char* group;  ///< its heading in the help; "Entries": it belongs to one entry
  OptionPlace (*place)(RunOptions& run, JobOptions& job);
  const char* doc;
  OptionDomain domain = {};
  Alike alike = Alike::kNothing;
  uint8_t needs = kNeedsNothing;

  bool of_entry() const;
  bool is_flag() const;
  const char* type_name() const;  ///< in the help: "INT"
  /// The option may stand on the line several times.
  bool is_list() const;
};

/// All rows, in the order of the help.
std::span<const OptionRow> option_rows();

}  // namespace nabla::cli
