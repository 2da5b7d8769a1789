/** Judges versions of Node: whether the gateway runs on one, and is tested there. Pure. */

/** The versions that are tested, each with its first minor version: `engines` of package.json. */
const NODES = [
  [20, 19],
  [22, 12],
  [24, 0],
  [26, 0],
] as const;
export const OLDEST_NODE = NODES[0][0];
export const RECOMMENDED_NODE = 24;

/** What is wrong with a version, and what to do, as sentences; too old: nothing can run. */
export type NodeFault = { isTooOld: boolean; finding: string; advice: string };

/** Null for a version that is tested. `version` is that of `process.versions.node`. */
export function nodeFault(version: string): NodeFault | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const since = NODES.find(([supported]) => supported === major);
  const others = NODES.map(([one, first]) => (first === 0 ? String(one) : `${one}.${first}`)).join(', ');
  if (major < OLDEST_NODE || (since !== undefined && minor < since[1]))
    return {
      isTooOld: true,
      finding: `Node ${version} is too old`,
      advice: `Install Node ${RECOMMENDED_NODE}, or ${others}.`,
    };
  if (since !== undefined) return null;
  return {
    isTooOld: false,
    finding: `Node ${version} is not tested`,
    advice: `Use Node ${RECOMMENDED_NODE}, or ${others}.`,
  };
}
