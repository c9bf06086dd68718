/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Script of the status page, sent as ?asset=script. It sorts tables, shows tabs and found redirects without another
 * page, and brings the figures up to date every ten seconds. Without it all of that is links, forms and folds. */
'use strict';
(function () {
  var every = 10000, orders = {}, texts = new WeakMap(), root = document.documentElement;
  function all(where, what) { return Array.prototype.slice.call(where.querySelectorAll(what)); }

  /* --- sorting --- */
  function value(row, i) {
    var v = row.cells[i].getAttribute('data-v');
    return v === null ? row.cells[i].textContent : +v;
  }
  function sort(table, i, down) {
    var body = table.tBodies[0], rows = all(body, 'tr');
    rows.sort(function (a, b) {
      var x = value(a, i), y = value(b, i), d = typeof x === 'number' ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return down ? -d : d;
    });
    rows.forEach(function (row) { body.appendChild(row); });
    all(table.tHead, 'th').forEach(function (th, j) {
      if (j === i) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    orders[table.id] = [i, down];
  }
  function prepare(part) {
    texts.set(part, part.outerHTML);
    all(part, 'table.rows').forEach(function (table) {
      all(table.tHead, 'th').forEach(function (th, i) {
        var button = document.createElement('button');
        button.type = 'button';
        button.textContent = th.textContent;
        th.textContent = '';
        th.appendChild(button);
        button.addEventListener('click', function () {
          var was = orders[table.id];
          sort(table, i, was && was[0] === i ? !was[1] : th.className === 'n');
        });
      });
      if (orders[table.id]) sort(table, orders[table.id][0], orders[table.id][1]);
    });
  }

  /* --- putting new figures in the place of old ones --- */
  function focusable(part) { return all(part, 'a,button,input,summary'); }
  /* A field that somebody types in and a text that somebody marks stay as they are. */
  function held(part) {
    var marks = getSelection(), at = document.activeElement;
    return (at && at.tagName === 'INPUT' && part.contains(at)) ||
      (!marks.isCollapsed && part.contains(marks.anchorNode));
  }
  function replace(old, fresh) {
    var at = focusable(old).indexOf(document.activeElement);
    all(old, 'details').forEach(function (d) {
      var now = fresh.querySelector('#' + d.id);
      if (now) now.open = d.open;
    });
    all(old, 'input[id]').forEach(function (input) {
      var now = fresh.querySelector('#' + input.id);
      if (now && input.value !== input.defaultValue) now.value = input.value;
    });
    old.replaceWith(fresh);
    if (at >= 0 && focusable(fresh)[at]) focusable(fresh)[at].focus({preventScroll: true});
  }
  /* The fresh parts in their order; a part that is held, or says what it said, is left alone. */
  function arrange(main, parts) {
    var place = main.firstElementChild, gone;
    parts.forEach(function (fresh) {
      var old = document.getElementById(fresh.id), part = fresh;
      if (old && (held(old) || texts.get(old) === fresh.outerHTML)) {
        part = old;
      } else {
        prepare(document.adoptNode(fresh));
        if (old === place) place = fresh;
        if (old) replace(old, fresh);
      }
      if (part === place) place = place.nextElementSibling;
      else main.insertBefore(part, place);
    });
    while (place) {
      gone = place;
      place = place.nextElementSibling;
      gone.remove();
    }
  }
  function top(part) { return part.getBoundingClientRect().top; }
  /* What is seen stays where it is, though parts above may have grown. */
  function show(text) {
    var page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.querySelector('main');
    var main = document.querySelector('main'), seen, was;
    if (!fresh) return;
    seen = Array.prototype.filter.call(main.children, function (part) {
      return part.getBoundingClientRect().bottom > 0;
    })[0];
    was = seen && top(seen);
    replace(document.querySelector('header'), document.adoptNode(page.querySelector('header')));
    arrange(main, Array.prototype.slice.call(fresh.children));
    seen = seen && document.getElementById(seen.id);
    if (seen && scrollY) scrollBy(0, top(seen) - was);
    document.title = page.title;
    root.setAttribute('data-refreshed', +(root.getAttribute('data-refreshed') || 0) + 1);
  }
  function get(url) {
    return fetch(url, {cache: 'no-store', credentials: 'same-origin'})
      .then(function (r) { if (!r.ok) throw r.status; return r.text(); });
  }
  function refresh() {
    var url = location.href;
    if (document.hidden) return;
    get(url).then(function (text) { if (url === location.href) show(text); })
      .catch(function () { document.getElementById('stale').textContent = 'No answer: these figures are old'; });
  }

  /* --- tabs and search of redirects --- */
  function go(url) {
    get(url).then(function (text) {
      history.replaceState(null, '', url);
      /* The field that somebody types in stays; what was found comes into its section. */
      var page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.getElementById('s-redirects');
      var old = document.getElementById('s-redirects'), input = document.activeElement, typed;
      if (!fresh || !old) { location.assign(url); return; }
      typed = input && input.id === 'search' ? [input.value, input.selectionStart, input.selectionEnd] : null;
      document.adoptNode(fresh);
      prepare(fresh);
      replace(old, fresh);
      if (!typed) return;
      input = document.getElementById('search');
      input.value = typed[0];
      input.focus({preventScroll: true});
      input.setSelectionRange(typed[1], typed[2]);
    }).catch(function () { location.assign(url); });
  }
  function found(form) { return '?' + new URLSearchParams(new FormData(form)); }
  document.addEventListener('click', function (event) {
    var link = event.target.closest && event.target.closest('#s-redirects .tabs a');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(link.search);
  });
  document.addEventListener('submit', function (event) {
    if (!event.target.matches('.search')) return;
    event.preventDefault();
    go(found(event.target));
  });
  document.addEventListener('input', function (event) {
    var form = event.target.form, timer = +root.getAttribute('data-timer');
    if (event.target.id !== 'search') return;
    clearTimeout(timer);
    root.setAttribute('data-timer', setTimeout(function () { go(found(form)); }, 300));
  });

  all(document, 'main > *').forEach(prepare);
  if (root.hasAttribute('data-live')) {
    setInterval(refresh, every);
    document.addEventListener('visibilitychange', refresh);
  }
  root.setAttribute('data-ready', '');
})();
