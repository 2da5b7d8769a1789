/** Says whether a state of a process, an app, a server or a run is good or bad, for the colour that it is shown in. */

export type Tone = 'good' | 'bad' | 'passing' | 'other';

const STATES: Record<Exclude<Tone, 'other'>, string> = {
  good: 'ok active live running succeeded ready up connected',
  bad: 'lost gone quarantined damaged failed failed_to_start error dead crashed unresponsive',
  passing: 'degraded no_active_version placed waiting starting draining stopping backoff queued retrying',
};
const TONES = new Map(
  Object.entries(STATES).flatMap(([tone, states]) => states.split(' ').map((state) => [state, tone as Tone])),
);

export function toneOf(state: string): Tone {
  return TONES.get(state) ?? 'other';
}
