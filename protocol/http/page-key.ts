/**
 * Names what a page presents beside its session cookie, which reaches every port of its host (specification, "Page key"). Pure.
 */

/** The page key of the session, in each call of a page. */
export const PAGE_KEY_HEADER = 'svc-page-key';
/**
 * In its place in the address of a file, which the browser itself loads: the HMAC-SHA256 of path and query before this parameter,
 * under the page key as text, in hex.
 */
export const SIGNATURE_PARAMETER = 'svc-signature';
