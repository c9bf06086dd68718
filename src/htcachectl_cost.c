#include "htcachectl.h"
int tool_cost(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
