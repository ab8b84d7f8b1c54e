/* Stands for the library of a host: what calls a plugin's nixl_plugin_init lies here, and so may a function
 * that hosts of some versions export, named by EXPORTED. */
#define VISIBLE __attribute__((visibility("default")))

#ifdef EXPORTED
VISIBLE void exported(void) __asm__(EXPORTED);
void exported(void) {}
#endif

VISIBLE const void* call_init(const void* (*init)(void));
const void* call_init(const void* (*init)(void)) {
    const void* volatile table = init(); /* so that the call is no jump, which leaves nothing of us behind */
    return table;
}
