/** The hosts that an app wants to reach, for people. */

/** Without a list it may reach what the configuration lets it. */
export function drawNetwork(network: string[] | null): string {
  if (network === null) return 'any host that the configuration allows';
  return network.length === 0 ? 'none' : network.join(', ');
}
