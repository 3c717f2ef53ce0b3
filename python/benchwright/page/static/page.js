// The script of the report page. The page is complete without it: it adds a switch of the theme, opens
// what a link leads to, and shows long series with zoom and cursor. It makes no markup from text, so
// that no name of a command or a test can become an element.
'use strict';

/**
 * A long series as the page contains it; see LongSeries in page/document.py.
 * @typedef {{start: number, step: number, x_label: string, y_label: string, labels: string[],
 *   series: (number | null)[][]}} LongSeries
 */

(() => {
  // -- Theme: that of the system, until the reader chooses ------------------------------

  const THEMES = /** @type {const} */ (['light', 'dark']);
  const KEY = 'benchwright-theme';
  /** @type {Set<() => void>} */
  const afterTheme = new Set();

  /** Return the color of a custom property of the page. @param {string} name */
  const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  };

  /** Return the theme that was chosen on an earlier visit; storage may be forbidden. */
  const storedTheme = () => {
    try {
      return THEMES.find((theme) => theme === localStorage.getItem(KEY));
    } catch {
      return undefined;
    }
  };

  const startTheme = () => {
    const button = /** @type {HTMLButtonElement} */ (document.getElementById('theme'));
    const stored = storedTheme();
    if (stored) document.documentElement.dataset.theme = stored;
    const label = () => {
      button.textContent = isDark() ? 'Light' : 'Dark';
      button.setAttribute('aria-label', `Use the ${isDark() ? 'light' : 'dark'} theme`);
      for (const redraw of afterTheme) redraw();
    };
    button.hidden = false;
    button.addEventListener('click', () => {
      const theme = isDark() ? 'light' : 'dark';
      document.documentElement.dataset.theme = theme;
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // The choice holds until the page is closed.
      }
      label();
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', label);
    label();
  };

  // -- Details: open where a link leads, and all of them on paper ------------------------

  /** Open the details around the element with this id, and itself. @param {string} id */
  const openAround = (id) => {
    const target = document.getElementById(id);
    for (let at = target; at; at = at.parentElement) {
      if (at instanceof HTMLDetailsElement) at.open = true;
    }
    return target;
  };

  /**
   * The id that a fragment names; a fragment that is not encoded as it must be names none.
   * @param {string} fragment
   */
  const idOf = (fragment) => {
    try {
      return decodeURIComponent(fragment.slice(1));
    } catch {
      return '';
    }
  };

  const startDetails = () => {
    document.addEventListener('click', (event) => {
      const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
      if (link) openAround(idOf(link.getAttribute('href') || ''));
    });
    if (location.hash) openAround(idOf(location.hash))?.scrollIntoView();
    /** @type {HTMLDetailsElement[]} */
    let opened = [];
    addEventListener('beforeprint', () => {
      opened = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll('details:not([open])'))];
      for (const details of opened) details.open = true;
    });
    addEventListener('afterprint', () => {
      for (const details of opened) details.open = false;
    });
  };

  // -- Long series: the smallest and the largest value of each pixel column ---------------

  const HEIGHT = 260;

  /**
   * Return the indexes from `low` to below `high` that a chart of this many columns needs: the first, the
   * smallest, the largest and the last of each column, in order. Without them a peak could disappear.
   * @param {(number | null)[]} values @param {number} low @param {number} high @param {number} columns
   */
  const extremes = (values, low, high, columns) => {
    const count = high - low;
    if (count <= 4 * columns) return Array.from({length: count}, (_, at) => low + at);
    /** @type {number[]} */
    const kept = [];
    for (let column = 0; column < columns; column++) {
      const begin = low + Math.floor((count * column) / columns);
      const end = low + Math.floor((count * (column + 1)) / columns);
      let least = -1;
      let most = -1;
      for (let at = begin; at < end; at++) {
        const value = values[at];
        if (value === null || value === undefined) continue;
        if (least < 0 || value < /** @type {number} */ (values[least])) least = at;
        if (most < 0 || value > /** @type {number} */ (values[most])) most = at;
      }
      const wanted = new Set([begin, least, most, end - 1]);
      kept.push(...[...wanted].filter((at) => at >= 0).sort((a, b) => a - b));
    }
    return kept;
  };

  /**
   * Show a long series in place of its drawing.
   * @param {HTMLElement} place @param {LongSeries} long
   */
  const showSeries = (place, long) => {
    const length = long.series[0].length;
    /** @param {number} x */
    const indexOf = (x) => Math.min(length, Math.max(0, Math.round((x - long.start) / long.step)));
    /** Return the data from `low` to below `high`. @param {number} low @param {number} high */
    const dataOf = (low, high) => {
      const columns = Math.max(100, place.clientWidth);
      const needed = new Set(long.series.flatMap((values) => extremes(values, low, high, columns)));
      const at = [...needed].sort((a, b) => a - b);
      return /** @type {uPlot.AlignedData} */ ([
        at.map((index) => long.start + long.step * index),
        ...long.series.map((values) => at.map((index) => values[index])),
      ]);
    };
    const axis = () => ({stroke: colorOf('--soft'), grid: {stroke: colorOf('--line'), width: 1}, ticks: {stroke: colorOf('--line'), width: 1}});
    // A section that a live view replaces keeps its zoom.
    const isZoomed = 'zoomed' in place.dataset;
    let [low, high] = isZoomed ? [Number(place.dataset.from), Math.min(length, Number(place.dataset.to))] : [0, length];
    /** @type {uPlot | undefined} */
    let chart;

    /** @param {number} from @param {number} to */
    const zoom = (from, to) => {
      if (!chart || to - from < 3) return;
      [low, high] = [from, to];
      chart.setData(dataOf(low, high));
      place.dataset.from = String(low);
      place.dataset.to = String(high);
      place.toggleAttribute('data-zoomed', high - low < length);
    };

    const draw = () => {
      chart?.destroy();
      if (!host.isConnected) {
        afterTheme.delete(draw);
        return;
      }
      chart = new uPlot(
        {
          width: Math.max(240, place.clientWidth),
          height: HEIGHT,
          scales: {x: {time: false}},
          axes: [{...axis(), label: long.x_label}, {...axis(), label: long.y_label, size: 70}],
          series: [
            {label: long.x_label},
            ...long.labels.map((label, at) => ({
              label,
              stroke: colorOf(`--series-${at + 1}`),
              width: 1,
              points: {show: false},
            })),
          ],
          cursor: {drag: {x: true, y: false, setScale: false}},
          hooks: {
            setSelect: [
              (self) => {
                if (self.select.width < 4) return;
                const from = indexOf(self.posToVal(self.select.left, 'x'));
                const to = indexOf(self.posToVal(self.select.left + self.select.width, 'x')) + 1;
                self.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
                zoom(from, Math.min(length, to));
              },
            ],
          },
        },
        dataOf(low, high),
        host,
      );
      chart.over.addEventListener('dblclick', () => zoom(0, length));
    };

    const host = document.createElement('div');
    host.className = 'series';
    host.setAttribute('role', 'img');
    host.setAttribute('aria-label', `${long.y_label} of ${length} values in order`);
    place.prepend(host);
    draw();
    place.dataset.from = String(low);
    place.dataset.to = String(high);
    afterTheme.add(draw);
    new ResizeObserver(() => {
      if (chart && Math.abs(chart.width - place.clientWidth) > 2 && place.clientWidth) draw();
    }).observe(place);
  };

  /** Show the long series below an element once they come into view. @param {ParentNode} root */
  const startSeries = (root) => {
    if (typeof uPlot === 'undefined') return;
    const watcher = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const place = /** @type {HTMLElement} */ (entry.target);
          const data = document.getElementById(place.dataset.series || '');
          if (!entry.isIntersecting || !data) continue;
          watcher.unobserve(place);
          showSeries(place, JSON.parse(data.textContent || ''));
        }
      },
      {rootMargin: '300px'},
    );
    for (const place of root.querySelectorAll('[data-series]')) watcher.observe(place);
  };

  startTheme();
  startDetails();
  startSeries(document);
  // A live view replaces sections, and says which.
  document.addEventListener('section', (event) => {
    if (event instanceof CustomEvent && event.detail instanceof Element) startSeries(event.detail);
  });
})();
