// Loaded before the code of each process and thread of the gateway that scripts/code-caches.mjs runs: stores the caches of its code
// again and again, since most of them end without notice.
const childProcess = require('node:child_process');

// Making one takes a tenth of that.
const STORE_MS = 300;
/** V8 knows nothing of these flags, with which a process could not write. */
const CONFINES = /^--(?:experimental-)?permission$|^--allow-/;

const { spawn } = childProcess;
childProcess.spawn = (program, args, options) =>
  program === process.execPath
    ? spawn(program, ['--require', __filename, ...args.filter((flag) => !CONFINES.test(flag))], options)
    : spawn(program, args, options);

function store() {
  const built = Object.keys(require.cache).find((path) => path.endsWith('cached-code.cjs'));
  if (built !== undefined) require(built).storeCaches();
}
setInterval(store, STORE_MS).unref();
process.on('exit', store);
