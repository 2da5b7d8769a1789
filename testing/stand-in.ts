/** Stands in for an object of the gateway in a unit test, with the members that the test needs. */
export const standIn = <T extends object>(members: NoInfer<Partial<T>>): T => members as T;
