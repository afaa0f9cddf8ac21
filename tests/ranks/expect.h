// What tests of ranks ask of texts.
#pragma once

#include <gtest/gtest.h>

#include <regex>

#define EXPECT_MATCHES(text, pattern) EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << (text)
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
