/**
 * A person whom an embedding host names: checks what the host says, and asks the table of rights what they may do (decisions,
 * sections 15 and 16).
 */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { Caller, HostRequest } from './access.ts';
import {
  APP_ROLES,
  type AppRole,
  type Capability,
  GATEWAY_ROLES,
  type GatewayRole,
  type MakerOf,
  mayAs,
  roleIn,
} from './grants.ts';

/** `id` and `name` are 1 to 500 characters without control characters; `apps` has the roles by id of the app. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly role: GatewayRole;
  readonly apps?: Readonly<Record<string, AppRole>>;
};

/** Says at once who makes a request; null for nobody. */
export type Identify = (request: HostRequest) => Person | null | undefined;

/** Allowed by the host to do no more than this as well. */
type Also = (capability: Capability, app: string | null) => boolean;

export class PersonCaller implements Caller {
  readonly kind = 'person';
  readonly owner = null;
  readonly client: string;
  readonly identity: string;
  readonly expiresAt = null;
  readonly ended = false;
  readonly person: Person;
  readonly #makerOf: MakerOf;
  readonly #also: Also;

  constructor(person: Person, makerOf: MakerOf, also: Also = () => true) {
    this.person = person;
    this.client = `person ${person.id}`;
    this.identity = this.client;
    this.#makerOf = makerOf;
    this.#also = also;
  }

  /** The role that handlers see is the one in their app; an owner's is `owner`. */
  shown(app: string): HandlerCaller {
    const { id, name, email, role } = this.person;
    const own = role === 'owner' ? role : (roleIn(this.person, appOfKey(app), this.#makerOf) ?? role);
    return { kind: 'person', name, user: { id, name, ...(email === undefined ? {} : { email }), role: own } };
  }

  may(capability: Capability, app: string | null): boolean {
    return mayAs(this.person, capability, app, this.#makerOf) && this.#also(capability, app);
  }

  refusal(app: string | null): string {
    if (app === null) return 'Your role in this gateway does not allow this. An owner of the gateway can do it.';
    const id = appOfKey(app);
    const named = `"${id.slice(0, 80)}"`;
    const given: unknown = givenRole(this.person, id);
    const role = roleIn(this.person, id, this.#makerOf);
    if (role === 'manager') return 'The server that this gateway is part of does not allow this.';
    if (role !== null) return `Your role in ${named} is ${role}, and this needs more.`;
    if (given === undefined) return `The app ${named} is not shared with you.`;
    return `Your role in ${named} is none that this gateway knows: ${APP_ROLES.join(', ')}.`;
  }
}

function givenRole({ apps }: Person, app: string): unknown {
  return apps !== undefined && Object.hasOwn(apps, app) ? apps[app] : undefined;
}

/**
 * Who publishes what this caller sends: `maker`, whose apps those are that are new, is the id of a person, null for a caller that is
 * none; `by` is the name that versions show.
 */
export function publisherIn(caller: Caller): { maker: string | null; by: string | null } {
  const maker = caller instanceof PersonCaller ? caller.person.id : null;
  return { maker, by: caller.shown('').name ?? null };
}

/** The person whom a host named; null for nobody. Throws `INTERNAL`, which says what is wrong with the answer. */
export function personOf(answer: unknown): Person | null {
  if (answer === null || answer === undefined) return null;
  if (typeof answer !== 'object') throw wrong('it must be an object, or null for nobody');
  if (answer instanceof Promise) {
    // Without a listener its rejection would end the host.
    answer.catch(() => {});
    throw wrong('it must be there at once: look the person up before the request is handed over');
  }
  const { id, name, email, role, apps } = answer as Record<string, unknown>;
  if (!isLine(id)) throw wrong('"id" must be a text of one line');
  if (!isLine(name)) throw wrong('"name" must be a text of one line');
  if (email !== undefined && email !== null && !isLine(email)) throw wrong('"email" must be a text of one line');
  if (!GATEWAY_ROLES.includes(role as GatewayRole)) throw wrong(`"role" must be one of ${GATEWAY_ROLES.join(', ')}`);
  if (apps !== undefined && apps !== null && (typeof apps !== 'object' || Array.isArray(apps)))
    throw wrong('"apps" must be an object with a role for each app');
  return {
    id,
    name,
    ...(typeof email === 'string' ? { email } : {}),
    role: role as GatewayRole,
    ...(typeof apps === 'object' && apps !== null ? { apps: { ...apps } } : {}),
  };
}

/** Idempotency keys and limits are kept under it, in texts of which it is one line. */
function isLine(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= LIMITS.textChars && !/\p{Cc}/u.test(value);
}

function wrong(what: string): SvcError {
  return new SvcError('INTERNAL', `What "identify" of this server answered is no person: ${what}.`);
}
