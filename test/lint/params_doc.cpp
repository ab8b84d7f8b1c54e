// Prints docs/configuration.md as the list of settings has it now.
#include <iostream>

#include "common/params.h"

int main() {
    std::cout << railyard::params_as_markdown();
    return std::cout.flush() ? 0 : 1;
}
