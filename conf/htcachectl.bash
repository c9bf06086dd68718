# Licensed under the Apache License, Version 2.0; see LICENSE.
# Completion of htcachectl for bash. Held against the tool's own help by tests/htcachectl-agree.sh.

_htcachectl_options() { # command
    local all="--json --color= --help --version"
    case $1 in
    status) all+=" --url= --all" ;;
    explain) all+=" --url= --method= --header= --address=" ;;
    map) all+=" --url= --secret-file= --limit= --all --temporary" ;;
    purge | reset-counters) all+=" --url= --secret-file=" ;;
    top) all+=" --url= --limit= --csv" ;;
    unused | missing) all+=" --url= --limit= --since= --csv" ;;
    check) all+=" --url= --format= --columns= --cost --fix --follow --limit= --output=" ;;
    lookup) all+=" --format= --columns= --follow --allow-encoded-slashes= --merge-slashes= --urls= --server= --csv --method= --header= --country=" ;;
    diff) all+=" --format= --columns= --base= --limit= --merge-slashes= --csv" ;;
    convert) all+=" --format= --columns= --to= --base= --negotiate --output= --limit= --merge-slashes=" ;;
    *) all="--help --version" ;;
    esac
    printf '%s\n' "$all"
}

_htcachectl_values() { # option
    case $1 in
    --color) echo auto never always ;;
    --format | -f) echo text csv cloudflare netlify nginx json httpd ;;
    --to | -t) echo text csv cloudflare netlify nginx json vercel httpd ;;
    --columns) echo source,target source,target,status ;;
    --server) echo http://127.0.0.1 ;;
    --allow-encoded-slashes) echo off on nodecode ;;
    --merge-slashes) echo on off ;;
    --since) echo 30d 90d 365d ;;
    --limit | -n) echo 0 20 100 ;;
    --method | -X) echo GET HEAD POST PUT DELETE OPTIONS ;;
    esac
}

_htcachectl() {
    local commands="status top unused missing explain purge reset-counters map check lookup diff convert"
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" i

    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -* | =) ;;
        *) [[ " $commands " == *" ${COMP_WORDS[i]} "* ]] && command=${COMP_WORDS[i]} && break ;;
        esac
    done
    # "--to=text" are three words where "=" divides words, and one where it does not.
    if [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $current == = ]]; then
        current=""
    elif [[ $current == --*=* ]]; then
        mapfile -t COMPREPLY < <(compgen -P "${current%%=*}=" -W "$(_htcachectl_values "${current%%=*}")" -- "${current#*=}")
        return
    fi
    case $before in
    --color | --format | --to | --columns | --server | --since | --limit | --allow-encoded-slashes | --merge-slashes | --method | -f | -t | -n | -X)
        mapfile -t COMPREPLY < <(compgen -W "$(_htcachectl_values "$before")" -- "$current")
        return
        ;;
    --output | -o | --urls)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --url | --base | --header | --address | --country | -u | -H) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_htcachectl_options "$command")" -- "$current")
        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
            compopt -o nospace 2>/dev/null
        fi
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    else
        case $command in
        map)
            if [[ $before == map ]]; then
                mapfile -t COMPREPLY < <(compgen -W "show get add set del begin commit abort apply" -- "$current")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            ;;
        check | lookup | diff | convert | purge) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        esac
    fi
}

complete -o filenames -F _htcachectl htcachectl
