// How many allocations a test lets its thread have: for any file of a program of which one includes
// failing_new.h.
#pragma once

inline thread_local long allocations_left = -1;  // until one fails on this thread; negative: none does
