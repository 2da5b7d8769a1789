/**
 * Checks what an embedding host says of the person who calls, and asks the table of rights what they may do (specification,
 * "People of a host").
 */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { matching, object, oneOf } from '../../../protocol/shapes/schema.ts';
import { type Fault, inWords, shape } from '../../../protocol/shapes/shape.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { HostRequest } from './callers.ts';
import {
  APP_ROLES,
  type AppRole,
  type Caller,
  GATEWAY_ROLES,
  type GatewayRole,
  type Grant,
  type HostAllows,
  lastingGrant,
  RIGHTS,
  roleIn,
} from './grants.ts';

/** A person. `id` and `name` have 1 to 500 characters without control characters. `apps` has the roles by the id of the app. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly role: GatewayRole;
  readonly apps?: Readonly<Record<string, AppRole>>;
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

export class PersonCaller implements Caller {
  readonly kind = 'person';
  readonly owner = null;
  readonly client: string;
  readonly identity: string;
  readonly person: Person;
  readonly grants: readonly Grant[];
  readonly ended = false;
  readonly hostAllows: HostAllows;

  /** `also` says what the host's `authorize` allows. The person may do no more than that. */
  constructor(person: Person, makerOf: MakerOf, hostAllows: HostAllows = () => true) {
    this.person = person;
    this.client = `person ${person.id}`;
    this.identity = this.client;
    this.grants = grantsOf(person, makerOf);
    this.hostAllows = hostAllows;
  }

  /** Handlers see the role that the person has in their app. The role of an owner is `owner`. */
  shown(app: string): HandlerCaller {
    const { id, name, email, role } = this.person;
    const own = role === 'owner' ? role : (roleIn(this.grants, appOfKey(app)) ?? role);
    return { kind: 'person', name, user: { id, name, ...(email === undefined ? {} : { email }), role: own } };
  }

  refusal(app: string | null): string {
    if (app === null) return 'Your role in this gateway does not allow this. An owner of the gateway can do it.';
    const id = appOfKey(app);
    const named = `"${id.slice(0, 80)}"`;
    const given: unknown = givenRole(this.person, id);
    const role = roleIn(this.grants, id);
    if (role === 'manager') return 'The server that this gateway is part of does not allow this.';
    if (role !== null) return `Your role in ${named} is ${role}, and this needs more.`;
    if (given === undefined) return `The app ${named} is not shared with you.`;
    return `Your role in ${named} is none that this gateway knows: ${APP_ROLES.join(', ')}.`;
  }
}

/**
 * The grants of a person. An author manages the apps that they made, and ids without an app. Who manages an app, or may make one, may
 * open a session.
 */
function grantsOf({ id, role, apps = {} }: Person, makerOf: MakerOf): Grant[] {
  if (role === 'owner') return [lastingGrant('everything', RIGHTS.everything)];
  const shared = Object.entries(apps).filter(([, given]) => APP_ROLES.includes(given));
  const grants = shared.map(([app, given]) => lastingGrant({ apps: (one) => one === app }, RIGHTS[given]));
  if (role === 'author') {
    const made = (app: string): boolean => {
      const maker = makerOf(app);
      return maker === undefined || maker === id;
    };
    grants.push(lastingGrant({ apps: made }, RIGHTS.manager), lastingGrant({ key: null }, ['manage', 'make']));
  } else if (shared.some(([, given]) => given === 'manager')) grants.push(lastingGrant({ key: null }, ['manage']));
  return grants;
}

function givenRole({ apps }: Person, app: string): unknown {
  return apps !== undefined && Object.hasOwn(apps, app) ? apps[app] : undefined;
}

/**
 * Who publishes what this caller sends. `maker` is the id of a person, to whom new apps belong, and null for other callers.
 * `by` is the name that versions show.
 */
export function publisherIn(caller: Caller): { maker: string | null; by: string | null } {
  const maker = caller instanceof PersonCaller ? caller.person.id : null;
  return { maker, by: caller.shown('').name ?? null };
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
  // A role that is none gives no right.
  return { id, name, ...(email && { email }), role, ...(apps && { apps: { ...(apps as Person['apps']) } }) };
}

function wrong(what: string): SvcError {
  return new SvcError('INTERNAL', `What "identify" of this server answered is no person: ${what}`);
}
