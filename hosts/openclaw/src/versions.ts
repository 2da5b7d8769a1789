/** Says in words which Node and which OpenClaw the plugin can work with. */
import { execFileSync } from 'node:child_process';

/** The oldest host whose plugin interface is known to fit, and the newest one that was tried. */
export const OLDEST_HOST = '2026.9.6';
export const NEWEST_HOST = '2026.9.6';

/** As `engines` of svc-gateway, but for Node 20, whose SQLite would have to be compiled. */
const NODES = [
  { major: 22, minor: 12 },
  { major: 24, minor: 0 },
  { major: 26, minor: 0 },
];

export type HostVerdict = { refusal?: string; warning?: string };

/** `missing`: what the plugin needs of the host's interface and does not find. */
export function checkHost(version: string, missing: readonly string[]): HostVerdict {
  const order = compare(version, OLDEST_HOST);
  if (order < 0)
    return {
      refusal: `svc needs OpenClaw ${OLDEST_HOST} or newer; this is ${version}. Update it: npm install -g openclaw@latest`,
    };
  if (missing.length > 0)
    return {
      refusal: `OpenClaw ${version} has changed what svc needs of it (${missing.join(', ')}). Update the plugin, or go back to OpenClaw ${NEWEST_HOST}: npm install -g openclaw@${NEWEST_HOST}`,
    };
  if (compare(version, NEWEST_HOST) > 0)
    return { warning: `svc was tried with OpenClaw up to ${NEWEST_HOST}; this is ${version}.` };
  return {};
}

/** Numbers of the date and the release; what follows them, such as `-beta.1`, does not count. */
function compare(one: string, other: string): number {
  const numbers = (text: string) => text.split('-', 1).join().split('.').map(Number);
  const [mine, theirs] = [numbers(one), numbers(other)];
  for (let at = 0; at < 3; at++) {
    const difference = (mine[at] ?? 0) - (theirs[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Why the gateway cannot run on a program that should be Node; null if it can. */
export function nodeFault(program: string, configPath: string): string | null {
  let version: string;
  try {
    version =
      program === process.execPath
        ? process.versions.node
        : execFileSync(program, ['-p', 'process.versions.node'], { encoding: 'utf8', timeout: 10_000 }).trim();
  } catch (error) {
    return `${program} does not run (${(error as NodeJS.ErrnoException).code ?? 'it failed'}). "${configPath}.node" must be the path of a Node.`;
  }
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (NODES.some((one) => one.major === major && minor >= one.minor)) return null;
  const whose = program === process.execPath ? 'OpenClaw runs on' : `${program} is`;
  return `svc runs here on Node 22.12, 24 or 26, and ${whose} Node ${version}. Install one of these, and set "${configPath}.node" to its path.`;
}
