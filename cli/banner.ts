/** What `svc serve` says when it is ready. Pure: facts in, lines out. */
import type { Style } from './terminal/style.ts';

export type BannerFacts = {
  version: string;
  url: string;
  pid: number;
  token: string | null;
  /** As it is shown. */
  dataDir: string;
  edge: 'uws' | 'node';
  /** Ids of the registered apps. */
  apps: string[];
};

/** Apps whose address is shown. */
const LISTED = 6;
const EDGES = { uws: 'uWebSockets.js', node: 'node:http' };

/** One line that says all that a log needs. */
export function readyLine({ version, url, pid }: BannerFacts, style: Style): string {
  return `${style('green', '●')} ${style('bold', 'svc-gateway')} ${version} is ready on ${style('cyan', url)} (pid ${pid})`;
}

/** The rest, for a person: it has the token in it, in addresses that sign the browser in. */
export function welcome(facts: BannerFacts, style: Style): string[] {
  const { dataDir, apps, edge } = facts;
  const open = `${facts.url}/svc/#token=${facts.token}`;
  const widest = Math.max(...apps.slice(0, LISTED).map((id) => id.length));
  const address = (id: string) =>
    `${style('bold', id.padEnd(widest))}  ${style('cyan', `${open}&open=${encodeURIComponent(id)}`)}`;
  const more = apps.length - LISTED;
  const lines: [name: string, value: string][] = [
    ['open', style('cyan', open)],
    ...apps.slice(0, LISTED).map((id, i): [string, string] => [i === 0 ? 'apps' : '', address(id)]),
    ...(apps.length === 0
      ? [['apps', `none yet: ${style('cyan', 'svc new notes && svc push notes')}`] as [string, string]]
      : []),
    ...(more > 0 ? [['', style('dim', `and ${more} more: svc apps`)] as [string, string]] : []),
    ['data', `${dataDir}  ${style('dim', `token in ${dataDir}/token.bin`)}`],
    ['edge', EDGES[edge]],
    ['stop', 'Ctrl-C'],
  ];
  return ['', ...lines.map(([name, value]) => `  ${style('dim', name.padEnd(5))} ${value}`), ''];
}
