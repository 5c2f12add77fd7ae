/* What can be computed of a page's looks; page_looks.py evaluates these functions in the page. */
({
  // Texts that are cut: by a box that hides what exceeds it, by the edge of a drawing, by the window. A name
  // may be cut if the page says so: with an ellipsis, and the whole in a title. A number may not.
  // What is scrolled away up or down is not cut; beyond the side it is, because nobody looks there.
  cutTexts() {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const clips = (v) => v === 'hidden' || v === 'clip' || v === 'auto' || v === 'scroll';
    for (let node; (node = walker.nextNode());) {
      if (!node.data.trim()) continue;
      const owner = node.parentElement;
      if (owner.closest('.hidden, .hidden-grid, .skip, script, style, noscript, option, title, dialog:not([open]), details:not([open]) > :not(summary)')) continue;
      if (!owner.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()];
      for (let at = owner; at && at !== document.documentElement; at = at.parentElement) {
        const style = getComputedStyle(at);
        const svg = at instanceof SVGSVGElement;
        if (!svg && !clips(style.overflowX)) continue;
        const box = at.getBoundingClientRect();
        if (at !== owner && boxes.some((b) => b.bottom < box.top - 1 || b.top > box.bottom + 1)) break; // scrolled away
        const over = boxes.some((b) => b.right > box.right + 1.5 || b.left < box.left - 1.5 ||
          ((svg || style.overflowY === 'hidden') && (b.bottom > box.bottom + 3 || b.top < box.top - 3)));
        if (!over) continue;
        if (owner.tagName === 'CODE' && style.overflowX === 'auto') break; // lines of source scroll sideways on a phone
        const named = owner.closest('[title]') || at.querySelector('[title]') || at.closest('[title]');
        if (style.textOverflow === 'ellipsis' && named && !/^[−+±]?[\d.,]+ ?(%|[KMGT]?i?B|[num]?s|blocks?|\/s)?$/.test(node.data.trim())) break;
        found.push(`${at.tagName}.${at.getAttribute('class') || ''} cuts "${node.data.trim().slice(0, 60)}"`);
        break;
      }
      if (boxes.some((b) => b.right > innerWidth + 1 || b.left < -1) && !owner.closest('.table-box, .matrix, .rail, .view, .flame, .inspector, .layers, .top, .controls'))
        found.push(`outside of the window: "${node.data.trim().slice(0, 60)}"`);
    }
    return [...new Set(found)];
  },
  // Labels of one drawing that lie over each other.
  overlappingLabels() {
    const found = [];
    for (const svg of document.querySelectorAll('#page svg')) {
      const texts = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim() && t.checkVisibility()).map((t) => ({ t, b: t.getBoundingClientRect() })).filter(({ b }) => b.width);
      texts.forEach((x, i) => texts.slice(i + 1).forEach((y) => {
        const wide = Math.min(x.b.right, y.b.right) - Math.max(x.b.left, y.b.left);
        const high = Math.min(x.b.bottom, y.b.bottom) - Math.max(x.b.top, y.b.top);
        if (wide > 1 && high > 4) found.push(`"${x.t.textContent}" and "${y.t.textContent}"`);
      }));
    }
    return found;
  },
  // Boxes that reach beyond the window and are not inside of something that scrolls.
  overflowing() {
    if (document.documentElement.scrollWidth > innerWidth) return [`the page is ${document.documentElement.scrollWidth} wide`, ...[...document.querySelectorAll('#page *')]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => `${e.tagName}.${e.getAttribute('class')}`).slice(0, 6)];
    return [];
  },
})
