/** What `svc serve` says when it is ready. Pure: facts in, lines out. */
import type { Style } from './terminal/style.ts';

export type BannerFacts = {
  version: string;
  url: string;
  pid: number;
  /** Signs a browser in at the console, once. */
  open: string;
  /** As it is shown. */
  dataDir: string;
  edge: 'uws' | 'node';
  /** The first apps that are registered, each with a link that opens its page. */
  apps: { id: string; open: string }[];
  /** How many more there are. */
  more: number;
};

/** Apps whose address is shown. */
export const LISTED = 6;
const EDGES = { uws: 'uWebSockets.js', node: 'node:http' };

/** One line that says all that a log needs. */
export function readyLine({ version, url, pid }: Pick<BannerFacts, 'version' | 'url' | 'pid'>, style: Style): string {
  return `${style('green', '●')} ${style('bold', 'svc-gateway')} ${version} is ready on ${style('cyan', url)} (pid ${pid})`;
}

/** The rest, for a person: its addresses sign a browser in, each once. */
export function welcome({ dataDir, apps, more, edge, open }: BannerFacts, style: Style): string[] {
  const widest = Math.max(...apps.map(({ id }) => id.length));
  const lines: [name: string, value: string][] = [
    ['open', style('cyan', open)],
    ...apps.map(({ id, open }, i): [string, string] => [
      i === 0 ? 'apps' : '',
      `${style('bold', id.padEnd(widest))}  ${style('cyan', open)}`,
    ]),
    ...(apps.length === 0
      ? [['apps', `none yet: ${style('cyan', 'svc new notes && svc push notes')}`] as [string, string]]
      : []),
    ...(more > 0 ? [['', style('dim', `and ${more} more: svc apps`)] as [string, string]] : []),
    ['', style('dim', 'Each link signs one browser in, within ten minutes. Another one: svc open')],
    ['data', `${dataDir}  ${style('dim', `token in ${dataDir}/token.bin`)}`],
    ['edge', EDGES[edge]],
    ['stop', 'Ctrl-C'],
  ];
  return ['', ...lines.map(([name, value]) => `  ${style('dim', name.padEnd(5))} ${value}`), ''];
}
