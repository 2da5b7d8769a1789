/** Finds and loads the native code of uWebSockets.js, whose package may be without it and serve from JavaScript instead. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export type Uws = typeof import('uWebSockets.js');

const PACKAGE = 'uWebSockets.js';
/** A release of the project itself with binaries for Node 22, 24 and 26; it is on GitHub, not in the registry. */
const UPSTREAM = `${PACKAGE}@github:uNetworking/uWebSockets.js#v20.67.0`;

/** The error of a machine without native code. */
export class NoUws extends Error {
  /** A sentence that says how to get it. */
  readonly nextStep = `To have it: npm install --no-save ${UPSTREAM}`;
}

/**
 * Loads the binary for this platform and this version of Node. The package's own entry is never used, because it takes
 * JavaScript where it has no binary. Throws `NoUws`, with a message for the log, when the binary is not there, does not load or
 * is too old.
 */
export function loadUws(require: NodeJS.Require = createRequire(import.meta.url)): Uws {
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  let folder: string;
  try {
    folder = dirname(require.resolve(PACKAGE));
  } catch {
    throw new NoUws(`${PACKAGE} is not installed.`);
  }
  // The project's own package keeps its binaries beside the entry, the repackaged one in the folder `binaries`.
  const file = [join(folder, binary), join(folder, '..', 'binaries', binary)].find((path) => existsSync(path));
  if (file === undefined) {
    throw new NoUws(
      `${PACKAGE} has no binary for Node ${process.versions.node} on ${process.platform} ${process.arch}.`,
    );
  }
  try {
    const native = require(file) as Uws;
    native._cfg('silent');
    return native;
  } catch (error) {
    throw new NoUws(`The binary of ${PACKAGE} does not load.`, { cause: error });
  }
}
