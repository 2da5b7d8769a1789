/** What may follow the words of a command line that is being typed: commands, options, and names from the gateway. */
import { setTimeout as wait } from 'node:timers/promises';
import type { RouteKey } from '../protocol/routes/api.ts';
import type { Command } from './command.ts';
import { findVersion } from './commands/apps/versions-command.ts';
import { accountOf } from './commands/people/names.ts';
import { COMMANDS } from './commands.ts';
import { Client } from './gateway/client.ts';
import { resolveConnection, type Surroundings } from './gateway/connection.ts';
import { allConversations } from './gateway/conversations.ts';
import { describeApp } from './gateway/descriptions.ts';
import { type Names, type Resource, type RowOf, readAll } from './resource.ts';
import {
  APPS,
  AUTOMATIONS,
  CONNECTIONS,
  CONVERSATIONS,
  FILES,
  INVITATIONS,
  NODES,
  PEOPLE,
  PEOPLE_GROUPS,
  SETTINGS,
  SHARES,
  TEMPLATES,
  TOKENS,
  TRASH,
  VERSION_FILES,
  VERSIONS,
  WORKSPACES,
} from './resources.ts';

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
    const described = await describeApp(client, app);
    return lists.flatMap((list) =>
      described[list].map(({ name, description = '' }) => ({ word: name, about: description })),
    );
  };

/** The rows of a resource, by the names of the app before. */
const names =
  <Key extends RouteKey, Member extends string = never>(
    resource: Resource<Key, Member> & Names<RowOf<Key, Member>>,
  ): Source =>
  async (client, _typed, [app = '']) =>
    candidatesFrom(await readAll(client, resource, [app]), resource);

const candidatesFrom = <Row>(rows: Row[], { named }: Names<Row>): Candidate[] =>
  rows.map(named).map(([word, about]) => ({ word, about }));

/** By the names of places in the usage of commands. */
const SOURCES: Record<string, Source> = {
  app: (client, typed, before) => (typed.command.name === 'trash' ? names(TRASH) : names(APPS))(client, typed, before),
  query: tools('queries'),
  action: tools('actions'),
  tool: tools('queries', 'actions'),
  version: names(VERSIONS),
  path: async (client, _typed, [app = '', version = '']) => {
    const id = await findVersion(client, app, version);
    return candidatesFrom(await readAll(client, VERSION_FILES, [app, id]), VERSION_FILES);
  },
  workspace: names(WORKSPACES),
  'app/automation': names(AUTOMATIONS),
  token: names(TOKENS),
  'node-name': names(NODES),
  person: names(PEOPLE),
  group: names(PEOPLE_GROUPS),
  invitation: names(INVITATIONS),
  connection: async (client, { options: { person } }) =>
    candidatesFrom(await readAll(client, CONNECTIONS, [await accountOf(client, person)]), CONNECTIONS),
  who: names(SHARES),
  template: names(TEMPLATES),
  sha256: async (client, typed, before) => (typed.positionals[0] === 'ls' ? [] : names(FILES)(client, typed, before)),
  key: names(SETTINGS),
  value: async (client, _typed, [app = '', key]) => {
    const knob = (await readAll(client, SETTINGS, [app])).find((one) => one.key === key);
    return (knob?.options ?? []).map(({ value, label }) => ({ word: value, about: label }));
  },
  window: async (client, _typed, [app = '']) =>
    candidatesFrom((await allConversations(client, app)).rows, CONVERSATIONS),
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
