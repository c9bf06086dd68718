/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Script of the status page, sent as ?asset=script. It sorts tables, and fetches the page anew every ten seconds.
 * Without it all figures are there, and <meta> refreshes the page. */
'use strict';
(function () {
  var every = 10000, orders = {};
  function value(row, i) {
    var cell = row.cells[i], v = cell.getAttribute('data-v');
    return v === null ? cell.textContent : +v;
  }
  function sort(table, i, down) {
    var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = value(a, i), y = value(b, i);
      var d = typeof x === 'number' ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return down ? -d : d;
    });
    rows.forEach(function (row) { body.appendChild(row); });
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, j) {
      if (j === i) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    orders[table.id] = [i, down];
  }
  function prepare(root) {
    root.querySelectorAll('table.sortable').forEach(function (table) {
      Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, i) {
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
  function show(text) {
    var page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.querySelector('main');
    var main = document.querySelector('main');
    if (!fresh || !main) return;
    prepare(fresh);
    main.querySelectorAll('details').forEach(function (old) {
      var now = fresh.querySelector('#' + old.id);
      if (now) now.open = old.open;
    });
    main.replaceWith(document.adoptNode(fresh));
    document.querySelector('header').replaceWith(document.adoptNode(page.querySelector('header')));
    document.documentElement.setAttribute('data-refreshed',
      +(document.documentElement.getAttribute('data-refreshed') || 0) + 1);
  }
  function busy() {
    var a = document.activeElement;
    return document.hidden || (a && a.tagName === 'INPUT') || !getSelection().isCollapsed;
  }
  function refresh() {
    if (busy()) return;
    fetch(location.href, {cache: 'no-store', credentials: 'same-origin'})
      .then(function (r) { if (!r.ok) throw r.status; return r.text(); })
      .then(show)
      .catch(function () { document.title = '? mod_htcache'; });
  }
  prepare(document);
  if (document.documentElement.hasAttribute('data-live')) setInterval(refresh, every);
  document.documentElement.setAttribute('data-ready', '');
})();
