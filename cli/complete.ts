/** What may follow the words of a command line that is being typed: commands, options, and names from the gateway. */
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../protocol/limits.ts';
import type { Knob } from '../protocol/manifest.ts';
import type { Command } from './command.ts';
import { findVersion } from './commands/apps/versions.ts';
import { COMMANDS } from './commands.ts';
import {
  allApps,
  allAutomations,
  allSessions,
  allTokens,
  allTrash,
  type DescribedApp,
  type FileList,
  route,
  type ToolAnswer,
  withQuery,
} from './gateway/api.ts';
import { Client } from './gateway/client.ts';
import { resolveConnection, type Surroundings } from './gateway/connection.ts';
import { allConversations } from './gateway/conversations.ts';

/** A candidate word with its meaning, or a request for names of files or folders, which the shell completes. */
type Candidate = { word: string; about: string } | ':file' | ':dir';

/** Milliseconds; a person does not wait longer for a list. */
const ASKED_MS = 1000;

/** The parsed words before the one to complete. */
type Typed = { command: Command; positionals: string[]; options: Record<string, string> };

type Source = (client: Client, typed: Typed, before: string[]) => Promise<Candidate[]>;

const tools =
  (...lists: ('queries' | 'actions')[]): Source =>
  async (client, _typed, [app = '']) => {
    const { data } = await client.post<ToolAnswer<DescribedApp>>('/svc/_tool/svc_describe', { app });
    return lists.flatMap((list) =>
      data[list].map(({ name, description = '' }) => ({ word: name, about: description })),
    );
  };

const knobsOf = async (client: Client, app: string): Promise<Knob[]> =>
  (await client.get<{ knobs: Knob[] }>(route`/svc/_apps/${app}/settings`)).knobs;

/** By the names of places in the usage of commands. */
const SOURCES: Record<string, Source> = {
  app: async (client, { command }) =>
    command.name === 'trash'
      ? (await allTrash(client)).map(({ app, name }) => ({ word: app, about: name }))
      : (await allApps(client)).map(({ id, name }) => ({ word: id, about: name })),
  query: tools('queries'),
  action: tools('actions'),
  tool: tools('queries', 'actions'),
  version: async (client, _typed, [app = '']) => {
    const rows = await client.get<{ versionId: string; active: boolean }[]>(
      withQuery(route`/svc/_apps/${app}/versions`, { limit: 50 }),
    );
    return rows.map(({ versionId, active }) => ({ word: versionId, about: active ? 'live' : '' }));
  },
  path: async (client, _typed, [app = '', version = '']) => {
    const files = route`/svc/_apps/${app}/versions/${await findVersion(client, app, version)}/files`;
    return (await client.get<{ path: string }[]>(files)).map(({ path }) => ({ word: path, about: '' }));
  },
  session: async (client) =>
    (await allSessions(client)).map(({ sessionId, name, apps }) => ({
      word: sessionId,
      about: [...(name === sessionId ? [] : [name]), ...apps].join(', '),
    })),
  'app/automation': async (client) =>
    (await allAutomations(client)).rows.map(({ ref, name }) => ({ word: ref, about: name })),
  token: async (client) => (await allTokens(client)).map(({ name, tools: may }) => ({ word: name, about: may })),
  template: async (client) =>
    (await client.get<{ id: string; name: string }[]>('/svc/_templates')).map(({ id, name }) => ({
      word: id,
      about: name,
    })),
  sha256: async (client, { positionals: [verb] }, [app = '']) => {
    if (verb === 'ls') return [];
    const { files } = await client.get<FileList>(withQuery(route`/svc/${app}/_blobs`, { limit: LIMITS.listRows }));
    return files.map(({ sha256, type }) => ({ word: sha256, about: type }));
  },
  key: async (client, _typed, [app = '']) =>
    (await knobsOf(client, app)).map(({ key, label }) => ({ word: key, about: label })),
  value: async (client, _typed, [app = '', key]) =>
    ((await knobsOf(client, app)).find((knob) => knob.key === key)?.options ?? []).map(({ value, label }) => ({
      word: value,
      about: label,
    })),
  window: async (client, _typed, [app = '']) =>
    (await allConversations(client, app)).rows.map(({ id, title }) => ({ word: id, about: title })),
  file: async () => [':file'],
  dir: async () => [':dir'],
};

/** Lines for the script of a shell. Never throws: without a gateway its names are missing. */
export async function complete(words: string[], surroundings: Surroundings): Promise<string[]> {
  const current = words.at(-1) ?? '';
  const candidates = await Promise.race([
    candidatesFor(words.slice(0, -1), current, surroundings).catch(() => []),
    wait(ASKED_MS, [], { ref: false }),
  ]);
  return candidates.flatMap((candidate) => {
    if (typeof candidate === 'string') return candidate;
    const { word, about } = candidate;
    // A word that needs quotes would reach the shell as several words.
    return word.startsWith(current) && /^[\w./@:+-]+$/.test(word) ? `${word}\t${about.replace(/\s+/g, ' ')}` : [];
  });
}

async function candidatesFor(before: string[], current: string, surroundings: Surroundings): Promise<Candidate[]> {
  const [name, ...rest] = before;
  if (name === undefined || (name === 'help' && rest.length === 0)) {
    const commands = COMMANDS.map((command) => ({ word: command.name, about: command.summary }));
    return name === undefined ? [...commands, { word: 'help', about: 'Explain a command' }] : commands;
  }
  const command = COMMANDS.find((candidate) => candidate.name === name);
  if (command === undefined) return [];
  const { typed, waiting } = read(command, rest);
  if (waiting !== undefined) return candidatesOf(waiting, typed, surroundings);
  if (current.startsWith('-'))
    return Object.entries(command.options).map(([option, { summary }]) => ({ word: `--${option}`, about: summary }));
  const places = command.positionals.split(' ').map((place) => place.replace(/[[\]<>]/g, ''));
  return candidatesOf(places[typed.positionals.length] ?? '', typed, surroundings);
}

/** `waiting` is the kind of value of the last option, if its value comes next. */
function read(command: Command, words: string[]): { typed: Typed; waiting: string | undefined } {
  const typed: Typed = { command, positionals: [], options: {} };
  let open: { name: string; value: string } | undefined;
  for (const word of words) {
    if (open !== undefined) {
      typed.options[open.name] = word;
      open = undefined;
    } else if (word.startsWith('-')) {
      const isMeant = ([name, { short }]: [string, { short?: string }]) => word === `--${name}` || word === `-${short}`;
      const [name, { value } = {}] = Object.entries(command.options).find(isMeant) ?? [];
      if (name !== undefined && value !== undefined) open = { name, value };
    } else typed.positionals.push(word);
  }
  return { typed, waiting: open?.value };
}

/** The candidates for a position in the usage: names of one kind, literal words, or several of these. */
async function candidatesOf(place: string, typed: Typed, surroundings: Surroundings): Promise<Candidate[]> {
  const { url, token, 'data-dir': dataDir } = typed.options;
  const connect = () => new Client(resolveConnection({ url, token, dataDir }, surroundings));
  const apps = typed.positionals.slice(typed.command.positionals.split(' ').findIndex((word) => /^[[<]app/.test(word)));
  // For `svc files`: `put` takes a local file, the other verbs a file on the gateway.
  const alternatives =
    place === 'sha256|file' ? [typed.positionals[0] === 'put' ? 'file' : 'sha256'] : place.split('|');
  const found = await Promise.all(
    alternatives.map(async (alternative) => {
      const source = SOURCES[alternative];
      if (source === undefined) return alternatives.length > 1 ? [{ word: alternative, about: '' }] : [];
      if (alternative === 'file' || alternative === 'dir') return [`:${alternative}` as const];
      return source(connect(), typed, apps).catch(() => []);
    }),
  );
  return found.flat();
}
