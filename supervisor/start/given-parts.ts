/** Defines what the host of a gateway gives: who calls, what listens, and the parts that it brings. */
import type { AtOwner } from '../dispatch/at-owner.ts';
import type { GatewayKind, GivenExtensions } from '../extension-points.ts';
import type { Admits, Authorize } from '../http/access/callers.ts';
import type { Identify } from '../http/access/person.ts';
import type { Services } from '../services.ts';
import type { Simulation } from '../simulation.ts';

/** The host's parts and callbacks. */
export type Host = {
  /** False when the host checks who calls; `authorize` then decides, if given. */
  auth: boolean;
  authorize: Authorize | undefined;
  identify?: Identify | undefined;
  /** Whom the host lets in as its own; everyone else needs a session of ours, or a token for programs. */
  admits?: Admits | undefined;
  /** The host checks itself for which names it serves requests, and which sites they come from. */
  trustHost: boolean;
  kind: GatewayKind;
  /** The administrator's token, where the host keeps it; otherwise it is in `token.bin`. */
  token?: string | undefined;
  extensions: GivenExtensions;
  /** Only where an app is tested. */
  simulation?: Simulation;
  listening: Services['listening'];
  /** Serves nothing of its data directory until `Services.hosted` is told to: a node of a cluster, which has no buckets yet. */
  servesNothing?: boolean;
  /** Only in tests: has work done for the apps of other gateways. */
  atOwner?: AtOwner;
  /** The gateway cannot go on. */
  onFatal(reason: string): void;
  /** Only in tests: called as each phase of the start begins; what it throws fails the start. */
  onPhase?(name: string): void;
};
