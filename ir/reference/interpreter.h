// The meaning of a module: every node is evaluated by its op's reference, one after the other. Slow and obvious;
// every pass and every backend is compared with it.
#pragma once

#include <string_view>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

class Peers;

/// Results of a function of a module at the stages flat..scheduled. Symbols take their values from the arguments'
/// shapes. Fails on an unknown function (E0107), on arguments that do not fit its parameters (E0201, E0202, E0203), on
/// calls in a cycle (E0303) and on an op without a reference (E0304). Values are freed after their last use.
/// `peers`: the other ranks of a program that communicates; null: there are none, and E0304 for a collective that joins
/// several.
Result<std::vector<Literal>> interpret(const Module& module, std::string_view function, std::vector<Literal> args,
                                       Peers* peers = nullptr);

/// Called before every node that this thread interprets; what it throws ends the run, also a loop that has no end.
/// Null: nothing.
void set_interpreter_poll(void (*f)());

/// The module with every floating type, constant and dtype attribute made f64, so that rounding errors vanish. Random
/// numbers keep the values of their own dtype and are converted. Requires a module that `interpret` accepts.
Module widen_to_f64(const Module& module);
/// The literal in f64 if it is floating, otherwise as it is.
Literal widen_to_f64(const Literal& literal);

}  // namespace nabla::ir
