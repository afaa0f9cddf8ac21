// A bill as JSON, part by part (docs/bundle-format.md, report.json).
#pragma once

#include <nlohmann/json.hpp>

#include "ir/bill/bill.h"

namespace nabla::driver {

/// A size as text for people, and in postfix for evaluation: {"text": "8*n+1", "postfix": "8 n * 1 +"}.
nlohmann::ordered_json formula(const ir::Dim& size);
/// Adds to `out` what is known of a run of the entry. `several`: there are several ranks.
void add_entry(const ir::EntryBill& entry, const ir::Target& target, bool several, nlohmann::ordered_json& out);
/// Adds the prediction for a GPU: how often what runs, and how long it takes.
void add_prediction(const ir::EntryBill& entry, nlohmann::ordered_json& out);
/// `kernel` has the schedule.
nlohmann::ordered_json kernel_json(const ir::KernelBill& bill, const kernel_ir::Kernel& kernel, const ir::Target& target);
nlohmann::ordered_json library_json(const ir::LibraryBill& bill);

}  // namespace nabla::driver
