// Makes the single file for Linux, release/svc-linux-<architecture>: `npm run binary` prints its path. It is Node's own single
// executable with launcher.mjs as its program and the installed package as an asset.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { create } from 'tar';
import { RELEASE, root } from './package.mjs';
import { installTree } from './tree.mjs';

/** Compresses with that Node, which has zstd. */
const COMPRESS = `
  const { readFileSync, writeFileSync } = require('node:fs');
  const { constants, zstdCompressSync } = require('node:zlib');
  const [from, to, level] = process.argv.slice(1);
  const params = { [constants.ZSTD_c_compressionLevel]: Number(level), [constants.ZSTD_c_enableLongDistanceMatching]: 1 };
  writeFileSync(to, zstdCompressSync(readFileSync(from), { params }));
`;

/** Of the tree of `installTree`; answers the path of the file. `isFast`: hardly compressed. */
export function makeBinary({ node, installed, version }, { isFast = false } = {}) {
  const work = mkdtempSync(join(tmpdir(), 'svc-binary-'));
  try {
    const at = (name) => join(work, name);
    const prefix = 'package';
    create({ file: at('package.tar'), cwd: installed, prefix, portable: true, noMtime: true, sync: true }, ['.']);
    execFileSync(node, ['-e', COMPRESS, at('package.tar'), at('package.tar.zst'), isFast ? '1' : '17']);
    // Of all that is unpacked: another build of the same files has the same.
    const hash = createHash('sha256')
      .update(readFileSync(at('package.tar')))
      .update(readFileSync(node))
      .digest('hex');
    writeFileSync(at('hash'), `${version}-${hash.slice(0, 16)}`);
    buildSync({
      absWorkingDir: root,
      entryPoints: ['scripts/release/launcher.mjs'],
      outfile: at('launcher.cjs'),
      bundle: true,
      platform: 'node',
      format: 'cjs',
      target: 'node26',
      logLevel: 'warning',
    });
    const output = join(RELEASE, `svc-linux-${process.arch}`);
    const config = {
      main: at('launcher.cjs'),
      output,
      executable: node,
      disableExperimentalSEAWarning: true,
      execArgv: ['--no-warnings'],
      assets: { 'package.tar.zst': at('package.tar.zst'), hash: at('hash') },
    };
    writeFileSync(at('config.json'), JSON.stringify(config));
    execFileSync(node, ['--build-sea', at('config.json')], { cwd: work, stdio: ['ignore', 'ignore', 2] });
    chmodSync(output, 0o755);
    return output;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(makeBinary(await installTree()));
