import os, sys
sys.path.insert(0,'tests')
import numpy as np, torch, time
from isobag.backends import numpy as definition, Compute
from isobag.backends import torch as T
from isobag.backends.samples import Cut
from isobag.data.scaling import SCALINGS, fit_scaling
from isobag.backends.counts import self_dots as sd
from oracle.hard_data import KINDS, queries
rng=np.random.default_rng(0)
dev=sys.argv[1] if len(sys.argv)>1 else 'cpu'
verbs=T.on(dev)
import warnings; warnings.simplefilter('ignore')
for kind in KINDS:
    X=KINDS[kind](rng,3000 if not os.environ.get('TRITON_INTERPRET') else 400,4).astype(float)
    Q=np.concatenate([X,queries(rng,X),X*1e9,[[0.0,-0.0,1e150,-1e150]]])
    for name in SCALINGS:
        sc=fit_scaling(X,name)
        f=sc.scale(torch.from_numpy(Q).to(dev),verbs,None).cpu().numpy(); e=sc.apply(Q)
        assert (np.ascontiguousarray(f).view(np.int32)==e.view(np.int32)).all(), (kind,name, np.argwhere(f!=e)[:5], f[f!=e][:4], e[f!=e][:4])
print('scales ok')
for sizes in (np.full(30,12), rng.integers(1,300,30), np.array([5000,3,1])):
    starts=np.concatenate([[0],sizes.cumsum()])
    for cut in (Cut((2,4,7),14), Cut((16,32,64),64), Cut((8,),24), Cut((2,4,8,16,32,64,100),100)):
        T_=int(cut.ends[-1])
        cells=np.empty((T_,starts[-1]),np.int32); k=0
        for psi,ss in zip(cut.levels,cut.starts):
            for s in ss:
                c=rng.integers(-1,psi,starts[-1]); cells[k]=np.where(c<0,-1,c+s); k+=1
        e=definition.count_groups(cells,cut,starts); c=verbs.count_groups(cells.astype(np.int16),cut,starts)
        assert (c.tocsr()!=e).nnz==0
        assert (verbs.count_cells(cells,cut)==definition.count_cells(cells,cut)).all()
        t=rng.integers(0,1<<50,(len(cut.levels),cut.n_slots))
        assert (verbs.fetch(verbs.sum_cells(cells,cut,t))==definition.sum_cells(cells,cut,t)).all()
        assert (c.self_dots()==sd(e)).all()
        chosen=np.sort(rng.permutation(len(sizes))[:20]); dots=verbs.dot_counts(c,c[chosen])
        ed=definition.dot_counts(e,e[chosen]); assert (dots.cpu().numpy()==ed).all()
        if len(sizes)<30: continue
        levels,slots=(2,5,8),np.stack([rng.permutation(20)[:8] for _ in range(3)]).astype(np.int32)
        s=sd(e); unit=int(np.gcd.reduce(sizes[chosen])); com=(s[chosen],sizes[chosen],unit,slots,levels)
        r=definition.group_sq_radii(ed,chosen,*com); assert (verbs.group_sq_radii(dots,chosen,*com)==r).all()
        f=verbs.assign_groups(dots,s,sizes,*com,r); eg=definition.assign_groups(ed,s,sizes,*com,r)
        assert (verbs.fetch(f)==eg).all()
        assert (verbs.count_assigned(f,8)==definition.count_assigned(eg,8)).all()
        tb=rng.integers(0,99,(3,3,8)); assert (verbs.sum_assigned(f,tb)==definition.sum_assigned(eg,tb)).all()
        from isobag.backends.arrays import Deviations
        mk=lambda n,i:Deviations(rng.random(n)+.5,rng.random(n)*9,rng.random(n),s[i],sizes[i].astype(float))
        a=mk(len(s),slice(None)); b=a.part(slice(None)); b=Deviations(*(v[chosen] for v in a))
        for ranks in ((3,5,9),(1,1,1)):
            assert (verbs.near_and_far(dots,a,b,.7,ranks)==definition.near_and_far(ed,a,b,.7,ranks)).all()
print('groups ok')
from isobag import IDKPointDetector, IDKGroupDetector
from isobag.data.device import DeviceRows
if not os.environ.get('TRITON_INTERPRET'):
    X,Q=rng.normal(size=(9000,3)),2*rng.normal(size=(150,3))
    e=IDKPointDetector(random_state=0).fit(X); o=IDKPointDetector(random_state=0).fit(DeviceRows(torch.from_numpy(X).to(dev)))
    assert o.offset_==e.offset_
    for name in ("score_samples","p_values","explain","score_path","predict"):
        f=getattr(o,name)(DeviceRows(torch.from_numpy(Q).to(dev))); assert (f.cpu().numpy()==getattr(e,name)(Q)).all(), name
    ids=rng.integers(0,40,9000)
    from isobag.data.groups import Groups
    for opt in ({}, dict(max_samples=16,group_max_samples=8,pool_size=None)):
        e=IDKGroupDetector(10,random_state=0,**opt).fit(X,groups=ids)
        u,first=np.unique(ids,return_index=True); lab=ids[np.sort(first)]; num=np.argsort(lab)[ids]
        o=IDKGroupDetector(10,random_state=0,**opt).fit(Groups(DeviceRows(torch.from_numpy(X).to(dev)),num,lab))
        assert (o.scores_==e.scores_).all(), opt
    print('detectors ok')
