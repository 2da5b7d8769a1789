/** The page of the meter: a total, a chart that moves with the seconds, and a button that writes a lot at once. */
const { svc } = window;
const $ = (id) => document.getElementById(id);
const SECONDS = 60;
const BURST = 300;
/** A browser opens six connections to one origin, and the change stream keeps one of them. */
const CONNECTIONS = 5;
/** However many changes are told, the page reads no more often than this. */
const READ_EVERY_MS = 200;

const number = new Intl.NumberFormat();
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- Data ------------------------------------------------------------------------------------------------------------

/** What was counted, by second of the gateway's clock, which may differ from ours by `skew` milliseconds. */
let counted = new Map();
let skew = 0;
let total = 0;
let reading = false;
let changed = false;

/** Reads the series, and once more when something changed meanwhile. */
async function refresh() {
  changed = true;
  if (reading) return;
  reading = true;
  while (changed) {
    changed = false;
    try {
      const { counts, now, ...series } = await svc.read({ query: 'series', input: { seconds: SECONDS } });
      const first = Math.floor(now / 1000) - SECONDS + 1;
      counted = new Map(counts.map((count, at) => [first + at, count]));
      skew = now - Date.now();
      total = series.total;
      draw();
      countUp();
    } catch (error) {
      report(error.message);
    }
    await wait(READ_EVERY_MS);
  }
  reading = false;
}

/** Sends `BURST` writes over as many connections as there are, and says how it went. */
async function burst() {
  const times = [];
  const failures = [];
  let left = BURST;
  const started = performance.now();
  const send = async () => {
    while (left-- > 0) {
      const sent = performance.now();
      await svc.write({ action: 'increment' }).catch((error) => failures.push(error));
      times.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, send));
  const seconds = (performance.now() - started) / 1000;
  times.sort((a, b) => a - b);
  const median = times[Math.floor(BURST / 2)].toFixed(1);
  const done = BURST - failures.length;
  const failed = failures.length > 0 ? `; ${failures.length} failed: ${failures[0].message}` : '';
  report(
    `${done} writes in ${seconds.toFixed(2)} s, ${number.format(Math.round(done / seconds))} a second, ` +
      `each in ${median} ms (median)${failed}`,
  );
}

// ---- View ------------------------------------------------------------------------------------------------------------

function svg(name, attributes, text = '') {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** The next round number that is not below `value`, so that the scale and its half read well. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

function draw() {
  const now = Math.floor((Date.now() + skew) / 1000);
  const counts = Array.from({ length: SECONDS }, (_, at) => counted.get(now - SECONDS + 1 + at) ?? 0);
  const peak = Math.max(...counts);
  const top = roundUp(Math.max(peak, 4));
  const { width, height } = $('chart').getBoundingClientRect();
  const left = 12 + 8 * number.format(top).length;
  const base = height - 22;
  const step = (width - left) / SECONDS;
  const y = (count) => base - (count / top) * (base - 8);

  const marks = [0, top / 2, top].flatMap((count) => [
    svg('line', { x1: left, x2: width, y1: y(count), y2: y(count) }),
    svg('text', { x: left - 10, y: y(count) + 4, 'text-anchor': 'end' }, number.format(count)),
  ]);
  const times = [60, 45, 30, 15, 0].map((ago) =>
    svg(
      'text',
      { x: width - ago * step, y: height - 2, 'text-anchor': ago === 60 ? 'start' : ago === 0 ? 'end' : 'middle' },
      ago === 0 ? 'now' : `${ago} s`,
    ),
  );
  $('grid').replaceChildren(...marks, ...times);

  const bars = counts.map((count, at) => {
    const tall = Math.max(base - y(count), 2);
    const bar = svg('rect', {
      class: count === 0 ? 'none' : 'some',
      x: left + at * step + step * 0.14,
      y: base - tall,
      width: step * 0.72,
      height: tall,
      rx: Math.min(step * 0.2, 3, tall / 2),
    });
    bar.append(svg('title', {}, `${number.format(count)}, ${SECONDS - 1 - at} s ago`));
    return bar;
  });
  $('bars').replaceChildren(...bars);

  $('rate').textContent = number.format(counts.at(-2));
  $('peak').textContent = number.format(peak);
  $('minute').textContent = number.format(counts.reduce((sum, count) => sum + count, 0));
}

/** Runs the figure up to the total instead of jumping there. */
let shown = 0;
let frame = 0;
function countUp() {
  cancelAnimationFrame(frame);
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches || total < shown;
  shown = still || total - shown < 1 ? total : shown + (total - shown) / 4;
  $('total').textContent = number.format(Math.round(shown));
  if (shown !== total) frame = requestAnimationFrame(countUp);
}

function report(text) {
  $('report').textContent = text;
}

// ---- Input -----------------------------------------------------------------------------------------------------------

$('one').addEventListener('click', () => {
  svc.write({ action: 'increment' }).catch((error) => report(error.message));
});

$('burst').querySelector('b').textContent = BURST;
$('burst').addEventListener('click', async () => {
  $('burst').disabled = true;
  report('Writing …');
  await burst();
  $('burst').disabled = false;
});

$('reset').addEventListener('click', async () => {
  const dialog = $('confirm');
  dialog.returnValue = '';
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
  if (dialog.returnValue !== 'yes') return;
  report('');
  await svc.write({ action: 'reset' }).catch((error) => report(error.message));
});

setInterval(() => {
  if (document.visibilityState === 'visible') draw();
}, 1000);
new ResizeObserver(draw).observe($('chart'));
svc.onChange(refresh);
await refresh();
