/* The flame graph's behaviour: it fits itself to the window, zooms, searches, and can be used with
   keys alone. Everything it shows was written by heft: names are only ever set as text. */
(function () {
  'use strict';
  const svg = document.currentScript.ownerSVGElement;
  const alone = document.documentElement === svg;
  const SVG = 'http://www.w3.org/2000/svg', HTML = 'http://www.w3.org/1999/xhtml';
  const PAD = 10, PITCH = 19, LINE = 18;
  const one = (name) => svg.querySelector('.' + name);
  const make = (ns, name, parent, settings) => {
    const element = parent.appendChild(document.createElementNS(ns, name));
    for (const key in settings) element.setAttribute(key, settings[key]);
    return element;
  };
  const count = (n) => n.toLocaleString('en-US');

  /* Frames stand in the order of a walk from the root: the parent is the last one a level up, and
     what is below a frame follows it up to `end`. */
  const frames = [];
  for (const g of svg.querySelectorAll('.f')) {
    const [depth, start, value] = g.getAttribute('data-f').split(' ').map(Number);
    const lines = g.querySelector('title').textContent.split('\n');
    const f = { g, depth, start, value, lines, at: frames.length, end: 0, parent: null, below: [],
      rect: g.querySelector('rect'), text: g.querySelector('text'),
      words: (lines[0] + '\n' + lines[1]).toLowerCase(), hit: false, shown: true };
    for (let i = frames.length - 1; i >= 0 && !f.parent; i = frames[i].parent ? frames[i].parent.at : -1)
      if (frames[i].depth === depth - 1) f.parent = frames[i];
    if (f.parent) f.parent.below.push(f);
    frames.push(f);
    g.setAttribute('role', 'treeitem');
    g.setAttribute('aria-level', depth + 1);
    g.setAttribute('tabindex', -1);
  }
  for (let i = frames.length - 1; i >= 0; i--) {
    const f = frames[i];
    f.end = f.below.length ? f.below[f.below.length - 1].end : i + 1;
  }
  const root = frames[0];
  const deepest = frames.reduce((most, f) => Math.max(most, f.depth), 0);
  const unit = svg.getAttribute('data-unit');
  const tree = one('frames'), head = one('head'), help = one('help').textContent;
  tree.setAttribute('role', 'tree');
  tree.setAttribute('aria-label', one('what').textContent);

  /* A text with its whole content kept, shown as far as there is room. */
  const fit = (text, width, whole) => {
    if (whole === undefined) whole = text.whole === undefined ? text.textContent : text.whole;
    text.whole = whole;
    text.textContent = whole;
    if (!whole || text.getComputedTextLength() <= width) return;
    let low = 0, high = whole.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      text.textContent = whole.slice(0, middle) + '…';
      if (text.getComputedTextLength() <= width) low = middle; else high = middle - 1;
    }
    text.textContent = whole.slice(0, low) + '…';
  };

  const bar = make(SVG, 'foreignObject', head, {});
  const box = make(HTML, 'div', bar, { class: 'bar' });
  const field = make(HTML, 'input', box, { type: 'search', placeholder: 'Search  ( / )',
    'aria-label': 'Search functions, files and modules', spellcheck: 'false' });
  const reset = make(HTML, 'button', box, { type: 'button', title: 'Escape' });
  reset.textContent = 'Reset zoom';
  const matched = make(HTML, 'output', box, { class: 'matched', 'aria-live': 'polite' });
  const details = [0, 1, 2].map((i) =>
    make(SVG, 'text', head, { class: i ? 'detail' : 'detail name', x: PAD }));

  let zoomed = root, current = root, hovered = null, width = 0, letter = 7.3;

  const wide = () => width >= 700;

  const tell = () => {
    const f = hovered || (current.g === document.activeElement ? current : null);
    const [name, where, numbers] = f ? f.lines
      : [wide() || !root.value ? help : 'Tap a frame to zoom in, one above it to zoom out', '', ''];
    details[0].setAttribute('class', f ? 'detail name' : 'detail');
    fit(details[0], width - 2 * PAD, name);
    fit(details[1], width - 2 * PAD, numbers + (wide() && where ? '  \u00b7  ' + where : ''));
    fit(details[2], width - 2 * PAD, wide() ? '' : where);
  };

  const place = () => {
    let y = 28;
    let x = PAD;
    for (const text of svg.querySelectorAll('.what, .command, .facts')) {
      fit(text, width - 2 * PAD);
      const room = text.getComputedTextLength() + 16;
      if (x > PAD && (!text.classList.contains('more') || x + room > width)) {
        x = PAD;
        y += LINE + 1;
      }
      text.setAttribute('x', x);
      text.setAttribute('y', y);
      x += room;
    }
    x = PAD;
    y += LINE + 1;
    for (const item of svg.querySelectorAll('.legend')) {
      const text = item.querySelector('text'), swatch = item.querySelector('rect');
      fit(text, width - 2 * PAD - 20);
      const room = 18 + text.getComputedTextLength() + 16;
      if (x > PAD && x + room > width) { x = PAD; y += LINE; }
      swatch.setAttribute('x', x);
      swatch.setAttribute('y', y - 11);
      text.setAttribute('x', x + 18);
      text.setAttribute('y', y);
      x += room;
    }
    bar.setAttribute('x', PAD);
    bar.setAttribute('y', y + 8);
    bar.setAttribute('width', width - 2 * PAD);
    bar.setAttribute('height', wide() ? 38 : 58);
    y += wide() ? 64 : 86;
    for (const text of details.slice(0, wide() ? 2 : 3)) { text.setAttribute('y', y); y += LINE; }
    one('paper').setAttribute('width', width);
    one('paper').setAttribute('height', y - 8);
    one('help').style.display = 'none';
    return y - 2;
  };

  const draw = () => {
    width = Math.max(240, alone ? document.documentElement.clientWidth || window.innerWidth
      : svg.parentNode.clientWidth || 1200);
    svg.removeAttribute('viewBox');
    svg.setAttribute('width', width);
    const probe = make(SVG, 'text', root.g, {});
    probe.textContent = 'mmmmmmmmmm';
    letter = probe.getComputedTextLength() / 10 || 7.3;
    probe.remove();
    const top = place(), room = width - 2 * PAD, scale = room / (zoomed.value || 1);
    const above = new Set();
    for (let f = zoomed.parent; f; f = f.parent) above.add(f);
    for (const f of frames) {
      const inside = f.at >= zoomed.at && f.at < zoomed.end, up = above.has(f);
      const x = up ? 0 : (f.start - zoomed.start) * scale, w = up ? room : f.value * scale;
      f.shown = up || f === zoomed || (inside && w >= 0.4);
      f.g.style.display = f.shown ? '' : 'none';
      if (!f.shown) continue;
      const y = top + f.depth * PITCH, letters = Math.floor((w - 8) / letter);
      f.g.classList.toggle('up', up);
      f.rect.setAttribute('x', PAD + x);
      f.rect.setAttribute('y', y);
      f.rect.setAttribute('width', Math.max(w, 0.4));
      f.text.setAttribute('x', PAD + x + 4);
      f.text.setAttribute('y', y + 13);
      const name = f.label || f.lines[0];
      f.text.textContent = letters < 2 ? '' : name.length <= letters ? name
        : name.slice(0, letters - 1) + '…';
    }
    svg.setAttribute('height', top + (deepest + 1) * PITCH + 14);
    reset.disabled = zoomed === root;
    tell();
  };

  /* Scrolls no further than it takes to have the frame below the head and above the edge. */
  const reveal = (f) => {
    if (!alone) return;
    const y = Number(f.rect.getAttribute('y'));
    const hidden = Number(one('paper').getAttribute('height'));
    if (y < window.scrollY + hidden) window.scrollTo(0, y - hidden - 4);
    else if (y + PITCH > window.scrollY + window.innerHeight)
      window.scrollTo(0, y + PITCH + 8 - window.innerHeight);
  };

  const choose = (f, focus) => {
    current.g.setAttribute('tabindex', -1);
    current = f;
    f.g.setAttribute('tabindex', 0);
    if (!focus) return;
    f.g.focus({ preventScroll: true });
    reveal(f);
  };

  const zoom = (f) => {
    zoomed = f;
    draw();
    if (!current.shown) choose(f, document.activeElement === current.g);
  };

  const search = () => {
    const words = field.value.trim().toLowerCase();
    let sum = 0, hits = 0, covered = 0;
    for (const f of frames) {
      f.hit = words !== '' && f !== root && f.words.includes(words);
      f.g.classList.toggle('hit', f.hit);
      if (!f.hit) continue;
      hits++;
      if (f.at >= covered) { /* what is below one that matches is counted with it */
        sum += f.value;
        covered = f.end;
      }
    }
    svg.classList.toggle('searching', words !== '');
    matched.textContent = words === '' ? '' : hits === 0 ? 'no match'
      : (100 * sum / (root.value || 1)).toFixed(2) + ' % matched: ' + count(sum) + ' ' + unit +
        ' in ' + count(hits) + (hits === 1 ? ' frame' : ' frames');
    matched.title = matched.textContent;
  };

  const next = (step) => {
    for (let i = 1; i <= frames.length; i++) {
      const f = frames[(current.at + step * i + frames.length * 2) % frames.length];
      if (!f.hit) continue;
      if (!f.shown || (f.at < zoomed.at || f.at >= zoomed.end)) zoom(root);
      if (!f.shown) zoom(f);
      choose(f, true);
      return;
    }
  };

  const beside = (f, step) => { /* the next one that is shown on the same level */
    for (let i = f.at + step; i >= 0 && i < frames.length; i += step)
      if (frames[i].shown && frames[i].depth === f.depth) return frames[i];
    return null;
  };

  const press = (event) => {
    if (event.key === 'Tab' && alone) {
      /* The browser scrolls what it focuses to the very top, where the head is. */
      const before = window.scrollY;
      setTimeout(() => {
        window.scrollTo(0, before);
        if (current.g === document.activeElement) reveal(current);
      }, 0);
    }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target === field) {
      if (event.key === 'Escape') {
        field.value = '';
        search();
        choose(current, true);
      } else if (event.key === 'Enter') {
        next(1);
      } else return;
      event.preventDefault();
      return;
    }
    let to = null;
    switch (event.key) {
    case 'ArrowDown': to = current.below.find((f) => f.shown); break;
    case 'ArrowUp': to = current.parent; break;
    case 'ArrowLeft': to = beside(current, -1); break;
    case 'ArrowRight': to = beside(current, 1); break;
    case 'Home': to = root; break;
    case 'Enter': case ' ':
      if (event.target === reset) return;
      zoom(current);
      break;
    case 'Escape':
      if (zoomed !== root) zoom(root);
      else { field.value = ''; search(); }
      break;
    case '/': field.focus(); field.select(); break;
    case 'n': next(1); break;
    case 'N': next(-1); break;
    default: return;
    }
    if (to) choose(to, true);
    event.preventDefault();
  };

  const frameOf = (target) => {
    const g = target.closest ? target.closest('.f') : null;
    return g ? frames.find((f) => f.g === g) : null;
  };

  root.label = root.text.textContent;
  tree.addEventListener('click', (event) => {
    const f = frameOf(event.target);
    if (!f) return;
    zoom(f);
    choose(f, true);
  });
  tree.addEventListener('mouseover', (event) => { hovered = frameOf(event.target); tell(); });
  tree.addEventListener('mouseleave', () => { hovered = null; tell(); });
  tree.addEventListener('focusin', (event) => {
    const f = frameOf(event.target);
    if (f && f !== current) choose(f, false);
    hovered = null;
    tell();
  });
  tree.addEventListener('focusout', () => setTimeout(tell, 0));
  field.addEventListener('input', search);
  reset.addEventListener('click', () => zoom(root));
  (alone ? window : svg).addEventListener('keydown', press);
  window.addEventListener('resize', draw);
  if (alone) window.addEventListener('scroll', () =>
    head.setAttribute('transform', 'translate(0,' + window.scrollY + ')'));
  svg.appendChild(head); /* over the frames that scroll under it */
  root.g.setAttribute('tabindex', 0);
  draw();
}());
