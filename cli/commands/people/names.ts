/** Finds people and groups by what a command line calls them. */
import { UsageError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { type RowOf, readAll } from '../../resource.ts';
import { PEOPLE, PEOPLE_GROUPS } from '../../resources.ts';

export type PersonRow = RowOf<'GET /svc/_people'>;
type GroupRow = RowOf<'GET /svc/_groups'>;

/** The person of this id, vouched e-mail address or name. Throws `UsageError` for none, and where several have the name. */
export async function findPerson(client: Client, named: string): Promise<PersonRow> {
  const found = personAmong(await readAll(client, PEOPLE), named);
  if (found !== undefined) return found;
  throw new UsageError(`There is no person "${named}".`, 'People: svc people');
}

/** The id of a person that is named; `me` where none is, who is the administrator. */
export async function accountOf(client: Client, named: string | undefined): Promise<string> {
  return named === undefined ? 'me' : (await findPerson(client, named)).id;
}

/** The same among these; undefined for none. People choose their names, and may claim any address: neither stands in for the other. */
export function personAmong(all: readonly PersonRow[], named: string): PersonRow | undefined {
  const lower = named.toLowerCase();
  const byId = all.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  if (named.includes('@')) {
    const claimed = all.filter(({ email }) => email?.toLowerCase() === lower);
    const person = claimed.find(({ vouched }) => vouched);
    if (person !== undefined || claimed.length === 0) return person;
    throw new UsageError(
      `Nobody has checked that "${named}" is the address of who gave it; use the id.`,
      claimed.map(({ id, name }) => `${id} ${name}`),
    );
  }
  const byName = all.filter(({ name }) => name.toLowerCase() === lower);
  if (byName.length > 1)
    throw new UsageError(
      `Several people are called "${named}"; use the id.`,
      byName.map(({ id, email }) => `${id} ${email ?? ''}`.trim()),
    );
  return byName[0];
}

/** The group of this id or name among these; undefined for none. */
export function groupAmong(all: readonly GroupRow[], named: string): GroupRow | undefined {
  return all.find(({ id, name }) => id === named || name === named);
}

export async function findGroup(client: Client, named: string): Promise<GroupRow> {
  const found = groupAmong(await readAll(client, PEOPLE_GROUPS), named);
  if (found !== undefined) return found;
  throw new UsageError(`There is no group "${named}".`, 'Groups: svc groups');
}

/** One of these words. */
export function wordOf<W extends string>(option: string, word: string, words: readonly W[]): W {
  const found = words.find((one) => one === word);
  if (found !== undefined) return found;
  throw new UsageError(`${option} takes one of ${words.join(', ')}; not "${word}".`);
}
