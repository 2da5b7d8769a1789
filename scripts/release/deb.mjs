// Makes the Debian package, release/svc-gateway_<version>_<architecture>.deb: `npm run deb` prints its path. It has the installed
// package, the Node that runs it, and the units of deploy/ with a user and a configuration for them.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RELEASE, root } from './package.mjs';
import { installTree } from './tree.mjs';

const HOME = '/usr/lib/svc-gateway';
const ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' };

const COMMAND = `#!/bin/sh
exec ${HOME}/node ${HOME}/package/bin/svc.js "$@"
`;

const CONFIGURATION = `${JSON.stringify({ dataDir: '/var/lib/svc' }, null, 2)}\n`;

/** What dpkg runs. Each works in a root without systemd, such as an image. */
const SCRIPTS = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  getent passwd svc >/dev/null 2>&1 || useradd --system --user-group --home-dir /var/lib/svc --shell /usr/sbin/nologin svc
  chown root:svc /etc/svc/config.json
  chmod 640 /etc/svc/config.json
  install -d -o svc -g svc -m 700 /var/lib/svc
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -z "$2" ]; then systemctl enable --now svc; else systemctl try-restart svc; fi
  fi
  [ -n "$2" ] || echo 'svc-gateway: a link that signs a browser in: sudo -u svc -- svc open --data-dir /var/lib/svc'
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now svc svc.socket || true; fi
`,
  postrm: `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
case "$1" in
  remove|purge) if [ -d /var/lib/svc ]; then
    echo 'svc-gateway: apps and their data stay in /var/lib/svc. To delete them too: rm -rf /var/lib/svc'
  fi ;;
esac
`,
};

const control = (version, architecture) => `Package: svc-gateway
Version: ${version.replace('-', '~')}
Architecture: ${architecture}
Maintainer: svc-gateway <svc-gateway@localhost>
Section: web
Priority: optional
Depends: libc6 (>= 2.28), libstdc++6 (>= 8), libatomic1, passwd
Recommends: systemd
Description: self-hosted application gateway
 One daemon that hosts many small apps, each a folder with a page, queries,
 actions and its own SQLite database, for people and agents.
 It brings its own Node and runs as the user svc; data is in /var/lib/svc.
`;

/** The unit of deploy/, for where this package has its files. */
function unit(name) {
  const text = readFileSync(join(root, 'deploy', name), 'utf8');
  return text
    .replaceAll('/usr/local/bin/svc', '/usr/bin/svc')
    .replaceAll('/usr/local/lib/node_modules/svc-gateway', `${HOME}/package`)
    .replaceAll('/etc/systemd/system', '/usr/lib/systemd/system');
}

/** Of the tree of `installTree`; answers the path of the package. `isFast`: hardly compressed. */
export function makeDeb({ node, installed, version }, { isFast = false } = {}) {
  const work = mkdtempSync(join(tmpdir(), 'svc-deb-'));
  try {
    const write = (path, text, mode = 0o644) => {
      mkdirSync(dirname(join(work, path)), { recursive: true });
      writeFileSync(join(work, path), text, { mode });
    };
    mkdirSync(join(work, HOME), { recursive: true });
    cpSync(node, join(work, HOME, 'node'));
    cpSync(installed, join(work, HOME, 'package'), { recursive: true });
    write('usr/bin/svc', COMMAND, 0o755);
    write('etc/svc/config.json', CONFIGURATION);
    for (const name of ['svc.service', 'svc.socket']) write(`usr/lib/systemd/system/${name}`, unit(name));
    write('usr/share/doc/svc-gateway/copyright', readFileSync(join(root, 'LICENSE')));
    const architecture = ARCHITECTURES[process.arch];
    write('DEBIAN/control', control(version, architecture));
    write('DEBIAN/conffiles', '/etc/svc/config.json\n');
    for (const [name, text] of Object.entries(SCRIPTS)) write(`DEBIAN/${name}`, text, 0o755);
    const output = join(RELEASE, `svc-gateway_${version}_${architecture}.deb`);
    execFileSync('chmod', ['-R', 'go=rX', work]);
    execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', isFast ? '-z0' : '-z3', '--build', work, output], {
      stdio: ['ignore', 2, 2],
    });
    return output;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(makeDeb(await installTree()));
