/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * HtCacheRedirectMap FILE [key=value...]: reading and checking the line. Called by httpd while it
 * reads its configuration or a .htaccess file.
 */
#include "redirects/map.h"

#include "ap_mpm.h"

/* Everything that decides the contents of a table, and so whether two lines may share it. */
static redirect_area_key key_of(const htc_redirect_map *map, apr_pool_t *pool)
{
    const redirect_map_options *o = &map->options;
    const char *text =
        apr_psprintf(pool, "%d %d %d %d %d %d %d\n%s\n%s\n%s\n%s\n%s", o->format, o->query,
                     o->ignore_case, o->ignore_slash, o->subpath, o->status, o->unacceptable,
                     o->host ? o->host : "", o->strip ? o->strip : "", o->columns ? o->columns : "",
                     map->tree ? map->tree : "", map->file);

    return redirect_area_key_of(text, strlen(text), pool);
}

static void add_map(apr_pool_t *pool, const htc_chain **maps, htc_redirect_map *map)
{
    if (!*maps)
        *maps = htc_chain_of(pool, apr_array_make(pool, 2, sizeof(htc_redirect_map *)));
    APR_ARRAY_PUSH((apr_array_header_t *)(*maps)->own, htc_redirect_map *) = map;
}

/* Whose map it is when a .htaccess file names it: that directory's, after following links. The file
 * is checked once more each time it is read, as links may change. */
static const char *check_inside(const cmd_parms *cmd, const htc_redirect_map *map)
{
    char *file = realpath(map->file, NULL);
    apr_status_t rv = APR_FROM_OS_ERROR(errno);
    char *tree = realpath(map->tree, NULL);
    size_t len = tree ? strlen(tree) : 0;
    const char *err = NULL;

    if (!file || !tree)
        err = apr_psprintf(cmd->pool, "HtCacheRedirectMap '%s': cannot be found: %pm", map->file,
                           &rv);
    else if (strncmp(file, tree, len) || (len > 1 && file[len] != '/'))
        err = apr_psprintf(cmd->pool,
                           "HtCacheRedirectMap '%s': in .htaccess the file must lie inside this "
                           "directory, %s, after following links; it is %s",
                           map->file, map->tree, file);
    free(file);
    free(tree);
    return err;
}

static const char *check_file(const cmd_parms *cmd, const htc_redirect_map *map)
{
    apr_finfo_t finfo;
    apr_status_t rv = apr_stat(&finfo, map->file, APR_FINFO_TYPE | APR_FINFO_SIZE, cmd->temp_pool);

    if (rv != APR_SUCCESS)
        return apr_psprintf(cmd->pool, "HtCacheRedirectMap '%s': cannot be read: %pm", map->file,
                            &rv);
    if (finfo.filetype != APR_REG)
        return apr_psprintf(cmd->pool, "HtCacheRedirectMap '%s': not a plain file", map->file);
    return NULL;
}

static const char *read_options(const cmd_parms *cmd, htc_redirect_map *map, int argc,
                                char *const argv[])
{
    redirect_map_options_init(&map->options);
    for (int i = 1; i < argc; i++) {
        const char *err = redirect_map_option(&map->options, argv[i], cmd->pool);

        if (err)
            return apr_psprintf(cmd->pool, "HtCacheRedirectMap: %s", err);
    }
    return NULL;
}

/* As written in .htaccess, relative to its directory; elsewhere to ServerRoot. */
static const char *file_of(const cmd_parms *cmd, const htc_redirect_map *map, const char *arg)
{
    char *path;

    if (!map->tree)
        return ap_server_root_relative(cmd->pool, arg);
    return apr_filepath_merge(&path, map->tree, arg, APR_FILEPATH_NOTRELATIVE, cmd->pool) ==
                   APR_SUCCESS
               ? path
               : NULL;
}

static const char *check_area(const cmd_parms *cmd)
{
    const htc_redirects *redirects = htc_server_conf_of(cmd->server)->redirects;

    return redirects && redirects->area
               ? NULL
               : "HtCacheRedirectMap: not available in .htaccess: the server's configuration has "
                 "neither HtCache On nor a HtCacheRedirectMap";
}

/* In .htaccess a file that is gone, or is no plain file, is an error of that line, unless its
 * rows are known. Then the process that loads the map logs it, and the rows stay in use in all
 * processes, whenever each of them reads this line. In the server's configuration it is an
 * error of the map alone: see load_at_start(). */
static const char *check(const cmd_parms *cmd, htc_redirect_map *map)
{
    const char *err;

    map->key = key_of(map, cmd->temp_pool);
    if (!map->tree)
        return NULL;
    err = check_inside(cmd, map);
    if (!err)
        err = check_file(cmd, map);
    if (!err || htc_map_known(cmd->server, &map->key))
        return check_area(cmd);
    htc_map_reject(cmd, map, err);
    return err;
}

const char *htc_map_directive(cmd_parms *cmd, void *dir_conf, int argc, char *const argv[])
{
    htc_redirect_map *map;
    const char *err;

    if (argc < 1 || !*argv[0])
        return "HtCacheRedirectMap: give a file, then options such as status=301";
    map = apr_pcalloc(cmd->pool, sizeof(*map));
    map->slot = map->edits.recent = map->edits.older = REDIRECT_AREA_NIL;
    /* Equality of the two pools is how httpd itself tells a .htaccess file. In a section of it
     * cmd->path is no directory. */
    if (cmd->pool == cmd->temp_pool)
        map->tree = ap_make_dirstr_parent(cmd->pool, cmd->directive->filename);
    map->file = file_of(cmd, map, argv[0]);
    map->where =
        apr_psprintf(cmd->pool, "%s:%d", cmd->directive->filename, cmd->directive->line_num);
    if (!map->file)
        return apr_psprintf(cmd->pool, "HtCacheRedirectMap '%s': not a valid path", argv[0]);
    err = read_options(cmd, map, argc, argv);
    if (!err)
        err = check(cmd, map);
    if (err)
        return err;
    if (!map->tree)
        APR_ARRAY_PUSH(htc_options_get()->maps, htc_redirect_map *) = map;
    add_map(cmd->pool,
            cmd->path ? &((htc_dir_conf *)dir_conf)->maps
                      : &htc_server_conf_of(cmd->server)->own.maps,
            map);
    return NULL;
}
