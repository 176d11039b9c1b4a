from mix2fld.data.features.catalogue import NETWORKS as NETWORKS
from mix2fld.data.features.compute import features_of as features_of
from mix2fld.data.features.find import find_network as find_network
from mix2fld.data.features.network import Network as Network
from mix2fld.data.features.step import with_features as with_features
from mix2fld.data.features.text import as_samples as as_samples
