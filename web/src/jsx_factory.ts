// esbuild puts these into every file with JSX: shorter calls than the automatic runtime's. Their names
// are long here so that no variable hides them.
export { h as jsxElement, Fragment as JsxFragment } from "preact";
