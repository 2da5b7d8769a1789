/** Says in words what a browser calls itself. */

const BROWSERS = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'];
const SYSTEMS = ['iPhone', 'iPad', 'Android', 'Windows', 'Mac OS', 'Linux'];

/** `Firefox on Linux`, of the header `user-agent`; something shorter where it says less. */
export function browserWords(device: string): string {
  const found = [BROWSERS, SYSTEMS].flatMap((words) => words.find((word) => device.includes(word)) ?? []);
  return found.length === 0
    ? device.slice(0, 40) || 'a program'
    : found.join(' on ').replace('Edg', 'Edge').replace('OPR', 'Opera');
}
