/**
 * Makes the callers who are people: of an embedding host, whose word on them it checks, and of the gateway's own accounts
 * (specification, "People" and "People of a host").
 */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { matching, object, oneOf } from '../../../protocol/shapes/schema.ts';
import { type Fault, inWords, shape } from '../../../protocol/shapes/shape.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { ENDED, type HostRequest, NOT_BY_HOST, ownerOf, type Reach, reached, refusalAt } from './callers.ts';
import {
  type Allows,
  type Caller,
  definedRolesIn,
  GATEWAY_ROLES,
  type GatewayRole,
  type Grant,
  grantsFor,
  lastingGrant,
  may,
  RIGHTS,
  roleIn,
} from './grants.ts';

/** A person. `id` and `name` have 1 to 500 characters without control characters. `apps` has the roles by the id of the app: one that every app has, or one of its manifest. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly role: GatewayRole;
  readonly apps?: Readonly<Record<string, string>>;
};

/** The shape of an id and of a name, under which idempotency keys and limits are kept. */
const LINE = { ...matching(/^[^\p{Cc}]+$/u, 'a text of one line'), maxLength: LIMITS.textChars };
const PERSON = shape({
  ...object(
    { id: LINE, name: LINE, role: oneOf(...GATEWAY_ROLES) },
    {
      email: { ...LINE, type: ['string', 'null'] },
      apps: { type: ['object', 'null'], wanted: 'an object with a role for each app' },
    },
  ),
  wanted: 'an object, or null for nobody',
});

/** Says at once who makes a request. Null is nobody. */
export type Identify = (request: HostRequest) => Person | null | undefined;

/** The id of the person who made an app. It is null when no person did, and undefined when there is no such app. */
export type MakerOf = (app: string) => string | null | undefined;

/**
 * A person, and what they were given. `seen` keeps how the handlers of the last app saw them; it is there where that stays as
 * long as this does.
 */
export type Known = {
  readonly person: Omit<Person, 'apps'> & { readonly picture?: string };
  readonly grants: readonly Grant[];
  readonly seen?: { app?: string; caller?: HandlerCaller };
};

/** How somebody came: by which page, and what may be done there at most. One for all requests of a sign-in. */
type Way = Pick<Caller, 'owner' | 'keyless' | 'byCookie' | 'atMost'> & {
  /**
   * What is known of them when it is asked: null once they are signed out, or may not sign in. With a time in milliseconds since the
   * epoch also null where their sign-in has expired then. Only who comes and what goes on is asked with a time: a look at the clock
   * takes longer than the rest.
   */
  now(time?: number): Known | null;
  /** Where a sign-in may expire. */
  clock?(): number;
  /** The client that limits count, where it is not the person. */
  client?: string;
  /** Why not, where `atMost` forbids it. */
  limit(app: string | null): string | null;
  /** What is wrong with the role that they were given in an app; null where there is nothing. */
  fault?(app: string): string | null;
};

export class PersonCaller implements Caller {
  readonly kind = 'person';
  readonly #way: Way;
  #last: Known;

  constructor(known: Known, way: Way) {
    this.#last = known;
    this.#way = way;
  }

  get identity(): string {
    return `person ${this.person.id}`;
  }

  get client(): string {
    return this.#way.client ?? this.identity;
  }

  get owner(): Caller['owner'] {
    return this.#way.owner;
  }

  get atMost(): Allows {
    return this.#way.atMost ?? ALL;
  }

  get keyless(): boolean {
    return this.#way.keyless ?? false;
  }

  get byCookie(): true | undefined {
    return this.#way.byCookie;
  }

  get person(): Known['person'] {
    return this.#last.person;
  }

  get grants(): readonly Grant[] {
    const known = this.#way.now();
    if (known !== null) this.#last = known;
    return known?.grants ?? [];
  }

  get ended(): boolean {
    return this.#way.now(this.#way.clock?.()) === null;
  }

  /** Handlers see the role that the person has in their app. The role of an owner is `owner`. */
  shown(app: string): HandlerCaller {
    const { grants } = this;
    // Nothing is kept of who has nothing any more.
    const kept = grants === this.#last.grants ? this.#last.seen : undefined;
    if (kept?.caller !== undefined && kept.app === app) return kept.caller;
    const { id, name, email, picture, role } = this.person;
    const general = role === 'owner' ? role : roleIn(grants, appOfKey(app));
    const isLimited = general === null || general === 'viewer';
    const defined = isLimited ? definedRolesIn(grants, appOfKey(app)) : [];
    const more = { ...(email === undefined ? {} : { email }), ...(picture === undefined ? {} : { picture }) };
    const user = { id, name, ...more, role: defined[0] ?? general ?? role };
    const roles = general === null ? defined : [...defined, general];
    const caller: HandlerCaller = { kind: 'person', name, user, ...(defined.length > 0 && { roles }) };
    if (kept !== undefined) Object.assign(kept, { app, caller });
    return caller;
  }

  refusal(app: string | null): string {
    if (this.ended) return ENDED;
    const limit = this.#way.limit(app) ?? ENDED;
    if (this.person.role === 'owner') return limit;
    if (app === null) return 'Your role in this gateway does not allow this. An owner of the gateway can do it.';
    const id = appOfKey(app);
    const named = `"${id.slice(0, 80)}"`;
    const role = roleIn(this.grants, id) ?? definedRolesIn(this.grants, id)[0] ?? null;
    if (role === null) return this.#way.fault?.(id) ?? `The app ${named} is not shared with you.`;
    // Where they came by is not in the way of what their role does not allow either.
    return role === 'manager' ? limit : `Your role in ${named} is ${role}, and this needs more.`;
  }
}

/** The caller whom a host named. `atMost` says what the host's `authorize` allows. The person may do no more than that. */
export function hostPerson(person: Person, makerOf: MakerOf, atMost?: Allows): PersonCaller {
  const known = { person, grants: grantsOf(person, makerOf) };
  const { apps = {} } = person;
  const fault = (app: string): string | null =>
    Object.hasOwn(apps, app) ? `Your role in "${app.slice(0, 80)}" is no text, so it is none.` : null;
  return new PersonCaller(known, {
    now: () => known,
    owner: null,
    ...(atMost && { atMost }),
    limit: () => NOT_BY_HOST,
    fault,
  });
}

/** A person with an account of the gateway. What goes on for them also ends when the right to it is taken away. */
export class AccountCaller extends PersonCaller {
  #holds: (() => boolean)[] | null = null;
  /** What handlers were shown, by the key of their app: of the first one, and of others, which most requests have not. */
  #app: string | null = null;
  #seen: HandlerCaller | null = null;
  #others: Map<string, HandlerCaller> | null = null;

  override get ended(): boolean {
    return (
      super.ended ||
      this.#holds?.some((holds) => !holds()) === true ||
      (this.#app !== null && this.#seen !== null && hasLost(this.#seen, super.shown(this.#app))) ||
      [...(this.#others ?? [])].some(([app, shown]) => hasLost(shown, super.shown(app)))
    );
  }

  relies(holds: () => boolean): void {
    // Most have one, and a list of one is small.
    if (this.#holds === null) this.#holds = [holds];
    else this.#holds.push(holds);
  }

  override shown(app: string): HandlerCaller {
    const shown = super.shown(app);
    this.#app ??= app;
    if (this.#app === app) {
      this.#seen = shown;
    } else {
      this.#others ??= new Map();
      this.#others.set(app, shown);
    }
    return shown;
  }
}

const ALL: Allows = () => true;

/** The roles that allow every tool, from the least to the most. */
const FULL_ROLES: readonly string[] = ['editor', 'manager', 'owner'];

/** Whether a person had a role in an app that they do not have now, nor one that allows more. */
function hasLost(before: HandlerCaller, now: HandlerCaller): boolean {
  const [had, has] = [before, now].map(({ user }) => FULL_ROLES.indexOf(user?.role ?? ''));
  if (had !== -1 || has !== -1) return (has as number) < (had as number);
  const limited = ({ roles, user }: HandlerCaller) => roles ?? (user?.role === 'viewer' ? ['viewer'] : []);
  const left = limited(now);
  return limited(before).some((role) => !left.includes(role));
}

/**
 * Makes the callers of somebody who signed in to an account of the gateway, one for each request at its time; null where
 * `following` knows none then. `reach` is where they signed in.
 */
export function accountCallers(
  following: Required<Pick<Way, 'now' | 'clock'>>,
  reach: Reach,
  keyless: boolean,
): (time: number) => PersonCaller | null {
  const { on, rights } = reached(reach, keyless);
  const most = { grants: [lastingGrant(on, rights)] };
  const way: Way = {
    ...following,
    owner: ownerOf(reach),
    keyless,
    byCookie: true,
    atMost: (capability, app) => may(most, capability, app),
    limit: (app) => refusalAt(reach, keyless, app),
  };
  return (time) => {
    const known = following.now(time);
    return known === null ? null : new AccountCaller(known, way);
  };
}

/** The grants of a person of a host. */
function grantsOf({ id, role, apps = {} }: Person, makerOf: MakerOf): Grant[] {
  if (role === 'owner') return [lastingGrant('everything', RIGHTS.everything)];
  const shared = Object.entries(apps).filter(([, given]) => typeof given === 'string');
  const grants = shared.flatMap(([app, given]) => grantsFor(given, (one) => one === app));
  return role === 'author' ? [...grants, ...authorGrants(id, makerOf)] : grants;
}

/** An author manages the apps that they made, and ids without an app, and may open a workspace. */
export function authorGrants(id: string, makerOf: MakerOf): Grant[] {
  const made = (app: string): boolean => {
    const maker = makerOf(app);
    return maker === undefined || maker === id;
  };
  return [lastingGrant({ apps: made }, RIGHTS.manager), lastingGrant({ key: null }, ['manage', 'make'])];
}

/** The id of the person who calls; null where none does. */
export function personIdOf(caller: Caller): string | null {
  return caller instanceof PersonCaller ? caller.person.id : null;
}

/**
 * Who publishes what this caller sends. `maker` is the id of a person, to whom new apps belong, and null for other callers.
 * `by` is the name that versions show.
 */
export function publisherIn(caller: Caller): { maker: string | null; by: string | null } {
  return { maker: personIdOf(caller), by: caller.shown('').name ?? null };
}

/** The person whom a host named. Null is nobody. Throws `INTERNAL`, which says what is wrong with the host's answer. */
export function personOf(answer: unknown): Person | null {
  if (answer === null || answer === undefined) return null;
  if (answer instanceof Promise) {
    // Without a listener its rejection would end the host.
    answer.catch(() => {});
    throw wrong('it must be there at once: look the person up before the request is handed over.');
  }
  if (!PERSON.holds(answer)) throw wrong(inWords(PERSON.fault(answer) as Fault, 'it'));
  const { id, name, email, role, apps } = answer;
  // A role that is no text gives no right.
  return { id, name, ...(email && { email }), role, ...(apps && { apps: { ...(apps as Person['apps']) } }) };
}

function wrong(what: string): SvcError {
  return new SvcError('INTERNAL', `What "identify" of this server answered is no person: ${what}`);
}
