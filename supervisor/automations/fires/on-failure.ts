/** Which automation a failed run fires (specification, `onFailure`; decisions, section 6). Pure. */
import { automationRef, parseRef } from '../../../protocol/automation.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { LiveAutomation } from '../catalog.ts';

/** The automation to fire; or why there is none, null when none was asked for. */
export type FailureTarget = { target: LiveAutomation } | { why: string | null };

/** `depth` is that of the run that failed: how many `onFailure` fires led to it. */
export function failureTarget(
  failed: LiveAutomation,
  depth: number,
  get: (ref: string) => LiveAutomation | undefined,
): FailureTarget {
  const { onFailure } = failed.manifest;
  if (onFailure === undefined) return { why: null };
  const ref = onFailure.includes('/') ? onFailure : automationRef(failed.app, onFailure);
  if (parseRef(ref) === null) return { why: `onFailure "${onFailure.slice(0, 200)}" is no handle of an automation` };
  if (ref === failed.ref) return { why: 'onFailure names the automation itself' };
  if (depth >= LIMITS.failureDepth) return { why: `${LIMITS.failureDepth} onFailure fires led to this run already` };
  const target = get(ref);
  if (!target) return { why: `onFailure names "${ref}", and there is no such automation` };
  if (!target.manifest.enabled) return { why: `onFailure names "${ref}", which is disabled` };
  return { target };
}
