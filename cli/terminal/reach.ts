/** The hosts and the other apps that an app wants to reach, for people. */

/** Without a list it may reach what the configuration lets it. */
export function drawNetwork(network: string[] | null): string {
  if (network === null) return 'any host that the configuration allows';
  return network.length === 0 ? 'none' : network.join(', ');
}

/** The apps whose tools the pages of an app may call. */
export function drawUses(uses: string[] | null): string {
  return uses === null || uses.length === 0 ? 'no other app' : uses.join(', ');
}
