"""One call on a device: integers against NumPy and Numba, block sizes, and the numbers of the issue."""
import cProfile, multiprocessing as mp, os, pstats, statistics, sys, time, traceback, io
sys.path.insert(0, "tests")
START = time.time()
def say(*a): print(f"[{time.time()-START:5.0f}]", *a, flush=True)

def agree(job):
    try:
        d, levels, nb, kinds, n, opts = job
        import numpy as np, torch
        from isobag.backends import Compute, torch as T
        from isobag.backends import numpy as definition
        from isobag.backends.torch import rows as R
        from isobag.partitionings import balls_around, cut_pool
        from oracle.hard_data import KINDS, queries
        for k, v in opts.items(): setattr(R, k, v)
        verbs, ref = T.on("cuda"), Compute("numba", 1)
        rng, compared = np.random.default_rng(d), 0
        for kind in kinds or KINDS:
            X = KINDS[kind](rng, n, d).astype(np.float32)
            Q = np.concatenate([queries(rng, X), X[:9] * 1e5]).astype(np.float32)
            psi = min(levels[-1], n)
            slots = cut_pool(n, psi, nb, rng)
            b = balls_around(X, slots, levels, "hypersphere", ref)
            assert np.array_equal(verbs.sq_radii(b.pool, b.slots, levels), b.sq_radii), (job, kind, "radii")
            lim, t = b.far_limits(), rng.integers(0, 1 << 32, b.sq_radii.shape)
            place = torch.from_numpy(Q).cuda()
            use = definition if d <= 3 else ref.verbs
            for l in (None, lim):
                c, f = verbs.assign_cells(place, b, l)
                ec, ef = use.assign_cells(Q, b, l)
                assert np.array_equal(verbs.fetch(c), ec), (job, kind, "cells", (verbs.fetch(c) != ec).sum())
                assert np.array_equal(verbs.fetch(f), ef), (job, kind, "far")
                compared += ec.size
                for tt in (t, t >> 16):
                    assert np.array_equal(verbs.fetch(verbs.sum_at_cells(place, b, tt, l)), use.sum_at_cells(Q, b, tt, l)), (job, kind, "sums")
            assert np.array_equal(verbs.count_cells(c, b.cut), use.count_cells(ec, b.cut)), (job, kind, "counts")
            starts = np.array([0, 5, 5, len(Q) // 2, len(Q)])
            g = verbs.count_groups(c, b.cut, starts).tocsr()
            assert (g != use.count_groups(ec, b.cut, starts)).nnz == 0, (job, kind, "groups")
            if n < 700 and d < 60:  # bits of distances
                own = b.pool[b.slots]
                for m in range(0, 3):
                    v = R._sq_distances(place, torch.from_numpy(own).cuda()).cpu().numpy()
                assert np.array_equal(v.view(np.int32), definition.sq_distances(Q, own).view(np.int32)), (job, kind, "bits")
        return f"ok d={d} levels={levels[0]}..{levels[-1]} {opts or ''} cells compared {compared}"
    except Exception:
        return "FAILED " + str(job) + "\n" + traceback.format_exc(limit=-3)

def scalings(_):
    try:
        import runpy
        sys.argv = ["t2.py", "cuda"]
        runpy.run_path("t2.py")
        return "ok scales, groups, detectors"
    except Exception:
        return "FAILED scales\n" + traceback.format_exc(limit=-3)

NESTED = (2, 4, 8, 16, 32, 64, 128, 256, 512)
def med(f, k=5):
    import torch
    f(); ts = []
    for _ in range(k):
        torch.cuda.synchronize(); t = time.perf_counter(); f(); torch.cuda.synchronize(); ts.append(time.perf_counter() - t)
    return statistics.median(ts), min(ts)

def tune():
    import numpy as np, torch
    from isobag.backends import torch as T
    from isobag.backends.torch import rows as R
    from isobag.partitionings import balls_around, cut_pool
    from isobag.backends import Compute
    verbs, rng = T.on("cuda"), np.random.default_rng(0)
    def prepared(d, n, M):
        P = rng.normal(size=(M, d)).astype(np.float32)
        b = balls_around(P, np.arange(2048 // M * M, dtype=np.int32)[:M] if M == 2048 else cut_pool(M, 512, 4, rng), NESTED, "hypersphere", Compute("numba", -1))
        return b, torch.randn((d, n), device="cuda").t(), rng.integers(0, 9000, b.sq_radii.shape), b.far_limits()
    for d, n, M, variants in TUNE:
        b, x, t, lim = prepared(d, n, M)
        peak = n * 2048 * (3 * d + 3) / (132 * 128 * 1.755e9)
        for opts in variants:
            for k, v in opts.items(): setattr(R, k, v)
            s, least = med(lambda: verbs.sum_at_cells(x, b, t, lim), 3)
            say(f"tune d={d} n={n} {opts}: {s*1e3:.2f} ms (least {least*1e3:.2f}), issue floor {peak*1e3:.2f} ms")
        for k, v in DEFAULTS.items(): setattr(R, k, v)
DEFAULTS = {}
VARS10 = [dict(ROWS=r, UNROLL=u) for r, u in ((128, 4), (256, 1), (256, 2), (256, 4), (512, 1), (512, 2))]
TUNE = [(10, 1 << 21, 2048, VARS10), (3, 1 << 21, 2048, [dict(ROWS=256, UNROLL=2), dict(ROWS=512, UNROLL=2), dict(ROWS=256, UNROLL=4), dict(ROWS=512, UNROLL=4)]),
        (27, 1 << 20, 2048, [dict(MOST_IN_REGISTERS=32, ROWS=256, UNROLL=2), dict(MOST_IN_REGISTERS=32, ROWS=256, UNROLL=1), dict(MOST_IN_REGISTERS=0, ROWS=256, UNROLL=2), dict(MOST_IN_REGISTERS=0, ROWS=512, TOGETHER=16)]),
        (50, 1 << 20, 1024, [dict(ROWS=256, TOGETHER=16), dict(ROWS=512, TOGETHER=16), dict(ROWS=256, TOGETHER=32), dict(ROWS=512, TOGETHER=8)]),
        (784, 100_000, 1024, [dict(ROWS=256, TOGETHER=16), dict(ROWS=512, TOGETHER=16), dict(ROWS=256, TOGETHER=32), dict(ROWS=512, TOGETHER=8)])]

def profiled(name, f, k=18):
    pr = cProfile.Profile(); pr.enable(); f(); pr.disable(); out = io.StringIO()
    pstats.Stats(pr, stream=out).sort_stats("tottime").print_stats(k)
    say("profile", name); print("\n".join(line[:130] for line in out.getvalue().splitlines()[2:] if line.strip()), flush=True)

def numbers():
    import numpy as np, torch
    from isobag import IDKGroupDetector, IDKPointDetector
    from isobag.backends import Compute
    for n, d in ((10_000_000, 10), (1_000_000, 50), (200_000, 784)):
        X = torch.randn((n, d), device="cuda")
        for jobs in (None, -1):
            D = IDKPointDetector(random_state=0, n_jobs=jobs)
            (f, fl), (s, sl) = med(lambda: D.fit(X), 3), med(lambda: D.score_samples(X), 3)
            say(f"{n} x {d} n_jobs={jobs}: fit {f:.3f} (least {fl:.3f}) score {s:.3f} (least {sl:.3f}) both {f+s:.3f}")
        profiled(f"fit {n} x {d}", lambda: D.fit(X)); profiled(f"score {n} x {d}", lambda: D.score_samples(X), 12)
        H = X[:20000].cpu().numpy()
        E = IDKPointDetector(random_state=0, n_jobs=-1).fit(X[:40000].cpu().numpy()); G = IDKPointDetector(random_state=0).fit(X[:40000])
        same = (E.score_samples(H) != G.score_samples(X[:20000]).cpu().numpy()).sum(), E.offset_ == G.offset_, (E.p_values(H) != G.p_values(X[:20000]).cpu().numpy()).sum()
        say("scores that differ from Numba's, same offset, p-values that differ:", same)
        del X; torch.cuda.empty_cache()
    X = torch.randn((1_000_000, 2), device="cuda"); ids = torch.arange(10_000, device="cuda").repeat_interleave(100)
    for name, o in (("paper", dict(max_samples=256, group_max_samples=256, pool_size=None)), ("default", {})):
        D = IDKGroupDetector(random_state=0, n_jobs=-1, **o)
        (f, fl), (s, sl) = med(lambda: D.fit(X, groups=ids), 3), med(lambda: D.score_samples(X, groups=ids), 3)
        say(f"10,000 groups {name}: fit {f:.3f} ({fl:.3f}) score {s:.3f} ({sl:.3f})")
        profiled("groups fit " + name, lambda: D.fit(X, groups=ids))

if __name__ == "__main__":
    what = sys.argv[1:] or ["agree", "tune", "numbers"]
    if "agree" in what:
        jobs = [(d, NESTED, 4, ["normal", "integer grid", "90 % duplicates", "1e8 offset", "mixed magnitudes"], 600, {}) for d in (10, 3, 2, 1)]
        jobs += [(d, NESTED, 4, ["normal", "integer grid", "rare values"], 600, {}) for d in (784, 300, 50)]
        jobs += [(d, lv, nb, None, n, {}) for d, lv, nb, n in ((2, (2, 4, 8, 16, 32, 64, 100), 3, 150), (10, (2, 4, 7), 5, 60), (3, (16, 32, 64), 32, 300), (32, (2, 4, 8), 9, 60), (33, (5,), 7, 60), (70, (2, 4, 8, 16, 32, 40), 3, 80))]
        jobs += [(2, (256,), 100, ["normal", "integer grid"], 3000, {}), (3, (1500,), 2, ["normal", "integer grid"], 4000, {})]
        jobs += [(10, NESTED, 4, ["normal"], 600, o) for o in VARS10] + [(d, NESTED, 4, ["normal"], 600, o) for d, _, _, vs in TUNE[1:] for o in vs]
        with mp.get_context("spawn").Pool(15) as pool:
            for r in [pool.apply_async(scalings, (0,))] + [pool.apply_async(agree, (j,)) for j in jobs]:
                try: say(r.get(timeout=170))
                except Exception as e: say("FAILED", repr(e)[:300])
    for name, part in (("tune", tune), ("numbers", numbers)):
        if name in what:
            try: part()
            except Exception: traceback.print_exc()
