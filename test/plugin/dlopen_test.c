/* Loads the plugin from plain C: two symbols, and a table that a C program can read. Argument: the plugin's
 * path. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The table's C view. The two functions that return C++ containers by value are called by the C++ tests. */
struct plugin_table {
    int api_version;
    void* (*create_engine)(const void* init_params);
    void (*destroy_engine)(void* engine);
    const char* (*get_plugin_name)(void);
    const char* (*get_plugin_version)(void);
    void (*get_backend_options)(void);
    void (*get_backend_mems)(void);
};

static int failures;

static void check(int good, const char* what) {
    printf("%s: %s\n", good ? "ok" : "FAILED", what);
    failures += !good;
}

static void check_table(const struct plugin_table* table) {
    check(table != NULL, "nixl_plugin_init returns a table");
    if (table == NULL) return;
    check(table->api_version == 1, "api_version is 1");
    check(table->create_engine != NULL && table->destroy_engine != NULL, "engine functions are set");
    check(table->get_backend_options != NULL && table->get_backend_mems != NULL, "option functions are set");
    check(strcmp(table->get_plugin_name(), "RAILYARD") == 0, "the name is RAILYARD");
    const char* version = table->get_plugin_version();
    int major = -1, minor = -1, patch = -1, length = 0;
    int fields = sscanf(version, "%d.%d.%d%n", &major, &minor, &patch, &length);
    check(fields == 3 && (size_t)length == strlen(version), "the version is major.minor.patch");
    check(table->create_engine(NULL) == NULL, "create_engine without parameters gives no engine");
    table->destroy_engine(NULL);
}

/* ISO C has no conversion from void* to a function pointer; POSIX promises the representation. */
static void* load(const char* path, struct plugin_table* (**init)(void), void (**fini)(void)) {
    void* image = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (image == NULL) {
        printf("FAILED: %s\n", dlerror());
        return NULL;
    }
    *(void**)init = dlsym(image, "nixl_plugin_init");
    *(void**)fini = dlsym(image, "nixl_plugin_fini");
    check(*init != NULL && *fini != NULL, "both symbols are exported");
    return *init != NULL && *fini != NULL ? image : NULL;
}

int main(int argc, char** argv) {
    if (argc != 2) {
        printf("usage: %s PLUGIN\n", argv[0]);
        return 2;
    }
    struct plugin_table* first = NULL;
    for (int round = 0; round < 3; ++round) {
        struct plugin_table* (*init)(void) = NULL;
        void (*fini)(void) = NULL;
        void* image = load(argv[1], &init, &fini);
        if (image == NULL) return 1;
        struct plugin_table* table = init();
        check_table(table);
        check(init() == table, "a second init gives the same table");
        fini();
        check(init() == table, "init works again after fini");
        fini();
        fini();
        check(round == 0 || table == first, "the image stays in place over dlclose and dlopen");
        first = table;
        check(dlclose(image) == 0, "dlclose");
    }
    return failures == 0 ? 0 : 1;
}
