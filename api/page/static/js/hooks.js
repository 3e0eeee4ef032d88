// Loading, acting and following, as hooks.
import { useCallback, useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { Problem, follow, isUnreachable, toolAt } from "./api.js";
import { epoch } from "./session.js";
import { useStore } from "./store.js";

// Load when `deps` change, when the service comes back and on `reload()`. What was loaded stays until then.
// `load(signal)` returns a promise. `refresh()` gives up no call of the last 30 s, to notice silence.
// The answer is { data, error, loading, reload, refresh }.
export function useData(load, deps) {
  const [state, setState] = useState({ data: undefined, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  const now = useStore(epoch);
  useEffect(() => {
    const stop = new AbortController();
    const settle = (next) => !stop.signal.aborted && setState((old) => ({ ...old, ...next, loading: false }));
    setState((old) => ({ ...old, loading: Date.now() }));
    load(stop.signal).then(
      (data) => settle({ data, error: null }),
      (error) => settle({ error }),
    );
    return () => stop.abort();
  }, [...deps, turn, now]);
  const reload = useCallback(() => setTurn((old) => old + 1), []);
  return { ...state, reload, refresh: () => Date.now() - state.loading < 30_000 || reload() };
}

// Run something a person asked for: { run, busy, error, clear }. `run` returns undefined if it failed.
export function useAction(act) {
  const [state, setState] = useState({ busy: false, error: null });
  const mounted = useMounted();
  async function run(...given) {
    setState({ busy: true, error: null });
    let error = null;
    try {
      return await act(...given);
    } catch (thrown) {
      // what a person asked for is not done again by itself, so it is said where they asked
      error = isUnreachable(thrown) ? new Problem({ detail: thrown.detail }) : thrown;
      return undefined;
    } finally {
      if (mounted.current) setState({ busy: false, error });
    }
  }
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}

// Call `tick` now and then, while the page is visible.
export function useEvery(milliseconds, tick) {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    const timer = setInterval(() => document.hidden || latest.current(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
}

const QUIET_MS = 4_000;

// The status of a tool as it changes: { status, error, again }. `again()` looks at once, as after a reindex.
export function useStatus(toolId) {
  const [state, setState] = useState({ status: null, error: null });
  const [turn, setTurn] = useState(0);
  const now = useStore(epoch);
  useEffect(() => {
    const stop = new AbortController();
    const wake = { call: () => {} };
    const pause = () => new Promise((resolve) => ((wake.call = resolve), setTimeout(resolve, QUIET_MS)));
    const onData = (status) => setState({ status, error: null });
    const onError = (error) => stop.signal.aborted || setState((old) => ({ ...old, error }));
    async function watch() {
      // the server ends the stream with the task, and a new task may begin at any time
      while (!stop.signal.aborted) {
        if (!document.hidden) await follow(toolAt(toolId, "events"), onData, stop.signal).catch(onError);
        await pause();
      }
    }
    watch();
    return () => (stop.abort(), wake.call());
  }, [toolId, turn, now]);
  return { ...state, again: useCallback(() => setTurn((old) => old + 1), []) };
}

function useMounted() {
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);
  return mounted;
}
