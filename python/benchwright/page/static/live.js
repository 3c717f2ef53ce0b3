// The live view's addition to the report page: replaces the sections that changed, and shows the state.
// It builds no content: the server sends the HTML of the report's own sections.
'use strict';

(() => {
  /** @typedef {{state: string, text: string, order: string[], changed: Record<string, string>}} Update */

  const events = document.body.dataset.events;
  const label = document.getElementById('live-state');
  if (!events || !label) return;
  const client = crypto.randomUUID();
  const after = document.body.dataset.lastEvent || '0';
  const source = new EventSource(`${events}?after=${after}&client=${client}`);

  /** @param {string} state @param {string} text */
  const show = (state, text) => {
    label.dataset.state = state;
    label.textContent = text;
  };

  /** @param {Element} one */
  const nameOf = (one) => one.id || one.querySelector('summary')?.textContent || '';

  /** What a reader did to a section: the details that are open, the zoom, and the tables that are scrolled.
   *  @param {Element} section */
  const habits = (section) => ({
    open: new Map([...section.querySelectorAll('details')].map((one) => [nameOf(one), one.open])),
    zoom: new Map([.../** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll('[data-zoomed]'))]
      .map((one) => [one.dataset.series || '', { ...one.dataset }])),
    left: [...section.querySelectorAll('.scroll')].map((one) => one.scrollLeft),
  });

  /** @param {Element} section @param {ReturnType<typeof habits>} before */
  const restore = (section, before) => {
    for (const one of section.querySelectorAll('details')) {
      one.open = before.open.get(nameOf(one)) ?? one.open;
    }
    for (const [series, zoomed] of before.zoom) {
      const place = section.querySelector(`[data-series="${CSS.escape(series)}"]`);
      if (place instanceof HTMLElement) Object.assign(place.dataset, zoomed);
    }
    section.querySelectorAll('.scroll').forEach((one, at) => {
      one.scrollLeft = before.left[at] ?? 0;
    });
  };

  /** @param {string} html @returns {Element | null} */
  const elementOf = (html) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  /** The first section that is visible, and how far it is from the top: it stays there.
   *  @param {Element} place */
  const visible = (place) => {
    for (const one of place.children) {
      const box = one.getBoundingClientRect();
      if (box.bottom > 0) return { id: one.id, top: box.top };
    }
    return { id: '', top: 0 };
  };

  /** Writes the contents, as the report has them. @param {string[]} order */
  const list = (order) => {
    const contents = document.querySelector('nav.contents ul');
    if (!contents) return;
    contents.replaceChildren(...order.map((id) => {
      const link = document.createElement('a');
      link.href = `#${id}`;
      link.textContent = document.querySelector(`#${CSS.escape(id)} > h2`)?.textContent ?? 'Answer';
      const item = document.createElement('li');
      item.append(link);
      return item;
    }));
  };

  /** @param {Update} update */
  const take = (update) => {
    const place = document.querySelector('main article');
    if (!place) return;
    const seen = visible(place);
    const wanted = new Set(update.order);
    for (const one of [...place.children]) if (!wanted.has(one.id)) one.remove();
    update.order.forEach((id, at) => {
      const old = document.getElementById(id);
      const html = update.changed[id];
      const made = html === undefined ? old : elementOf(html);
      if (!made) return;
      if (old && made !== old) {
        const before = habits(old);
        old.replaceWith(made);
        restore(made, before);
      }
      if (place.children[at] !== made) place.insertBefore(made, place.children[at] ?? null);
      // page.js draws long series in it, and listens for this.
      if (made !== old) document.dispatchEvent(new CustomEvent('section', { detail: made }));
    });
    list(update.order);
    const kept = document.getElementById(seen.id);
    if (kept) window.scrollBy(0, kept.getBoundingClientRect().top - seen.top);
  };

  source.onmessage = (message) => {
    /** @type {Update} */
    const update = JSON.parse(message.data);
    if (update.order.length) take(update);
    document.body.dataset.lastEvent = message.lastEventId;
    show(update.state, update.text);
    // The server waits for this, so that no trial runs while the page is drawn.
    const report = () => fetch(`${events.replace(/events$/, 'drawn')}?client=${client}`).catch(() => {});
    if (document.hidden) report();
    else requestAnimationFrame(() => setTimeout(report, 0));
  };
  source.onerror = () => show('lost', 'connection lost; trying again');
  source.addEventListener('bye', () => source.close());
})();
