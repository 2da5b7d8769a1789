// Counts the lines of the product that ran, from what V8 wrote of each process of a run of the tests.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { decode } from '@jridgewell/sourcemap-codec';

const FOLDERS = ['protocol', 'storage', 'workers', 'supervisor', 'cli'];
/** Percent of its lines below which a file is listed, with its reason in coverage-reasons.json (of a file, or a folder). */
const LEAST = 60;

/**
 * Takes the links to their maps from the scripts of `dist/`, until they are built again: while it counts, Node reads the maps of
 * all that a process loads, for longer than most processes of a test run.
 */
export function unlinkMaps(root) {
  for (const name of readdirSync(join(root, 'dist')).filter((one) => one.endsWith('.js'))) {
    const path = join(root, 'dist', name);
    writeFileSync(path, readFileSync(path, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n'));
  }
}

/** Prints which part of the product's lines ran in the tests, and the files of which too little did. */
export function report(root, folder) {
  const lines = readCoverage(root, folder);
  const reasons = Object.entries(JSON.parse(readFileSync(join(root, 'scripts/tests/coverage-reasons.json'), 'utf8')));
  const rows = productFiles(root).map((file) => {
    const all = [...(lines.get(file)?.values() ?? [])];
    return { file, all: all.length, ran: all.filter(Boolean).length };
  });
  console.log(
    "\nLines of the product that ran; Node's permission model keeps handler hosts and the jobs process from writing",
  );
  console.log('what they covered, so that their code counts only where unit tests load it:');
  for (const name of ['', ...FOLDERS]) {
    const part = rows.filter(({ file }) => file.startsWith(name));
    const sum = (member) => part.reduce((total, row) => total + row[member], 0);
    console.log(
      `  ${(name || 'all').padEnd(12)}${shareOf({ all: sum('all'), ran: sum('ran') })
        .toFixed(1)
        .padStart(6)} %`,
    );
  }
  // A file without a line that can run is all types.
  const low = rows.filter((row) => shareOf(row) < LEAST && (row.all > 0 || hasCode(root, row.file)));
  if (low.length > 0) console.log(`Files below ${LEAST} %, with the reason in scripts/tests/coverage-reasons.json:`);
  for (const row of low) {
    const [, reason = 'no reason is given'] =
      reasons.find(([path]) => row.file === path || row.file.startsWith(`${path}/`)) ?? [];
    console.log(`  ${shareOf(row).toFixed(0).padStart(3)} %  ${row.file}: ${reason}`);
  }
}

const shareOf = ({ all, ran }) => (all === 0 ? 0 : (100 * ran) / all);

function productFiles(root) {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((name) => `${folder}/${name}`),
  )
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .sort();
}

/** Whether a file that no test loaded has more than types. */
function hasCode(root, file) {
  return /^(?:export )?(?:async )?(?:function|class|const|let|enum)\b|^(?:await|if|for)\b/m.test(
    readFileSync(join(root, file), 'utf8'),
  );
}

/** For each source file: whether each of its lines with code ran in any process. */
function readCoverage(root, folder) {
  const maps = new Map();
  const lines = new Map();
  const prefix = pathToFileURL(`${root}/`).href;
  for (const name of readdirSync(folder)) {
    const { result, 'source-map-cache': cache = {} } = readProcess(join(folder, name));
    for (const { url, functions } of result) {
      if (!url.startsWith(prefix) || url.includes('/node_modules/') || url.endsWith('.test.ts')) continue;
      if (!maps.has(url)) maps.set(url, pointsOf(root, url, cache[url] ?? mapBeside(fileURLToPath(url))));
      mark(lines, maps.get(url), functions);
    }
  }
  return lines;
}

/** What one process covered; nothing when it was killed while it wrote that. */
function readProcess(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return { result: [] };
  }
}

/** The map of a script of `dist/`, as Node gives those that it reads itself. */
function mapBeside(path) {
  if (!existsSync(`${path}.map`)) return undefined;
  const lineLengths = readFileSync(path, 'utf8')
    .split(/[\n\u2028\u2029]/)
    .map(({ length }) => length);
  return { lineLengths, data: JSON.parse(readFileSync(`${path}.map`, 'utf8')) };
}

/** The places of a script in order: where each begins, and which line of which product file it came from. */
function pointsOf(root, url, cached) {
  if (!cached?.data) return [];
  const { lineLengths, data } = cached;
  const sources = data.sources.map((source) =>
    relative(root, fileURLToPath(new URL(source, url))).replaceAll('\\', '/'),
  );
  const isProduct = sources.map((file) => FOLDERS.includes(file.split('/')[0]) && !file.endsWith('.test.ts'));
  const points = [];
  let lineAt = 0;
  for (const [i, segments] of decode(data.mappings).entries()) {
    for (const [column, source, line] of segments)
      if (source !== undefined && isProduct[source]) points.push({ at: lineAt + column, file: sources[source], line });
    lineAt += (lineLengths[i] ?? 0) + 1;
  }
  return points;
}

/** V8's ranges are nested: a place ran as often as the innermost range around it. */
function mark(lines, points, functions) {
  const ranges = functions
    .flatMap((one) => one.ranges)
    .sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  const around = [];
  let next = 0;
  for (const { at, file, line } of points) {
    while (next < ranges.length && ranges[next].startOffset <= at) around.push(ranges[next++]);
    // Those that ended lie on top of those around them.
    while (around.length > 0 && around.at(-1).endOffset <= at) around.pop();
    let inner = around.length - 1;
    while (inner >= 0 && around[inner].endOffset <= at) inner--;
    const ran = inner >= 0 && around[inner].count > 0;
    const known = lines.get(file) ?? new Map();
    lines.set(file, known);
    if (ran || !known.has(line)) known.set(line, ran);
  }
}
