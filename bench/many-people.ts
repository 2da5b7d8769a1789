/** Makes a data directory with many people, groups and shares: their rows are written to the identity database while no daemon runs. */
import { join } from 'node:path';
import { openSqlite } from '../storage/sqlite.ts';
import type { Account, Group, PersonSession, Share, SharedWith } from '../supervisor/people/records.ts';
import { type Context, withDaemon } from './context.ts';

/** Apps are shared with each person and each group, as many times each. */
const SHARES_EACH = 9;
export const GROUPS_EACH = 10;
/** Apart by this, no app and no group comes twice. */
const STEP = 101;
const ROLES = ['viewer', 'editor', 'manager'] as const;

type Rows = [kind: 'person' | 'session' | 'group' | 'share', value: Account | PersonSession | Group | Share][];

/** The id of a person by their number, from 0. */
export function personId(i: number): string {
  return `p_${hex(i, 12)}`;
}

/** How many shares that makes. */
export function sharesOf(people: number, groups: number): number {
  return (people + groups) * SHARES_EACH;
}

/**
 * Adds the people to a data directory with these apps. Everyone is signed in somewhere, is in ten groups, and has nine apps, the app of
 * their own number as a viewer; so the first ones have the same in each such directory.
 */
export async function addPeople(
  context: Context,
  dataDir: string,
  { people, groups, apps }: { people: number; groups: number; apps: readonly string[] },
): Promise<void> {
  // The gateway makes the table, and with it the group that is taken in place of the first.
  await withDaemon(context, (daemon) => daemon.request('POST', '/svc/_groups', JSON.stringify({ name: 'first' })), {
    dataDir,
  });
  const db = openSqlite(join(dataDir, 'identity.sqlite'));
  const put = db.prepare('INSERT INTO people_records (kind, id, value) VALUES (?, ?, ?)');
  db.transaction(() => {
    db.exec('DELETE FROM people_records');
    for (const [kind, value] of rowsOf(people, groups, apps)) put.run(kind, value.id, JSON.stringify(value));
  })();
  db.close();
}

function* rowsOf(people: number, groups: number, apps: readonly string[]): Generator<Rows[number]> {
  const now = Date.now();
  const members = Array.from({ length: groups }, (): string[] => []);
  let shares = 0;
  const shared = (to: SharedWith, first: number): Rows =>
    Array.from({ length: SHARES_EACH }, (_, i) => {
      const app = apps[(first + i * STEP) % apps.length] as string;
      const role = ROLES[i % ROLES.length] as string;
      return ['share', { id: `s_${hex(shares++, 12)}`, app, to, role, createdAt: now, expiresAt: null, by: null }];
    });
  for (let i = 0; i < people; i++) {
    const id = personId(i);
    const email = `person-${i}@example.org`;
    const account = { id, name: `Person ${i}`, email, isVouched: true, role: 'member', disabled: false } as const;
    yield ['person', { ...account, createdAt: now, lastSeenAt: now, password: null }];
    const used = { createdAt: now, lastUsedAt: now, address: '192.0.2.1', device: 'Mozilla/5.0 (X11; Linux x86_64)' };
    yield ['session', { ...used, id: `p${hex(i, 32)}`, person: id }];
    for (let j = 0; j < GROUPS_EACH; j++) members[(i + j * STEP) % groups]?.push(id);
    yield* shared({ person: id }, i);
  }
  for (const [i, of] of members.entries()) {
    const id = `g_${hex(i, 12)}`;
    yield ['group', { id, name: `Group ${i}`, members: of }];
    yield* shared({ group: id }, i);
  }
}

function hex(i: number, digits: number): string {
  return i.toString(16).padStart(digits, '0');
}
